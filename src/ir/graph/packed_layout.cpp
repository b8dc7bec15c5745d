#include "ir/graph/packed_layout.hpp"

#include <limits>

#include "fmt/format.h"

namespace attacca::ir {

Result<PackedLayout> packed_layout(const Packing& packing, int64_t n, int64_t k) {
  ATTACCA_TRY_VOID(check(packing));
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max() - kPackedBlock;
  if (n < 1 || k < 1 || n > kMost || k > kMost)
    return fail(fmt::format("packed weights of shape [{}, {}]", n, k), {},
                "give (N, K), both at least 1 and less than 2^31 - 64");
  if (packing.bits == 4 && k % 2 != 0)
    return fail(fmt::format("packed 4-bit weights with K = {}", k), {}, "K must be even");
  PackedLayout layout{packing, n, k};
  if (packing.group != 0) layout.groups = (k + packing.group - 1) / packing.group;
  const auto padded = [](int64_t bytes) { return (bytes + 255) / 256 * 256; };
  const int64_t entries = layout.blocks_n() * layout.groups * kPackedBlock;
  const int64_t codes = layout.blocks_n() * layout.blocks_k() * layout.block_bytes();
  layout.scales_at = kPackedHeaderBytes + padded(codes);
  layout.zeros_at = layout.scales_at + padded(entries * size_of(packing.scales));
  layout.bytes = layout.zeros_at + (packing.zeros ? padded(entries) : 0);
  return layout;
}

Result<PackedLayout> packed_layout(const UnpackAttrs& attrs) {
  return packed_layout(attrs.packing, attrs.shape[0].value(), attrs.shape[1].value());
}

}  // namespace attacca::ir
