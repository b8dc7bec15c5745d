// The places of a packed tensor's parts, computed from its sizes and its packing.
#pragma once

#include "ir/graph/attrs.hpp"
#include "ir/graph/packing.hpp"

namespace attacca::ir {

inline constexpr int kPackedBlock = 64;             // rows, and values of k
inline constexpr int64_t kPackedHeaderBytes = 256;  // where the codes begin

// Offsets and sizes in bytes; ir/packed/packed.hpp describes every byte.
struct PackedLayout {
  Packing packing;
  int64_t n = 0, k = 0;
  int64_t groups = 1;  // in each row
  int64_t scales_at = 0, zeros_at = 0, bytes = 0;
  friend bool operator==(const PackedLayout&, const PackedLayout&) = default;
  int64_t blocks_n() const { return (n + kPackedBlock - 1) / kPackedBlock; }
  int64_t blocks_k() const {
    const int64_t together = packing.whole() ? 2 : 1;  // that a tensor core's step may need
    return (k + together * kPackedBlock - 1) / (together * kPackedBlock) * together;
  }
  // The stored code of 0 where there are no zero points.
  int zero() const { return packing.weights == DType::S8 ? (packing.bits == 4 ? 8 : 128) : 0; }
  int64_t block_bytes() const { return kPackedBlock * kPackedBlock * packing.bits / 8; }
};
// Errors: sizes that no packed tensor has.
Result<PackedLayout> packed_layout(const Packing& packing, int64_t n, int64_t k);

// The layout that an unpack op reads.
Result<PackedLayout> packed_layout(const UnpackAttrs& attrs);

}  // namespace attacca::ir
