#include "ir/packed/packed.hpp"

#include <array>
#include <cmath>
#include <cstring>

#include "fmt/format.h"

#include "ir/packed/header.hpp"
#include "support/check.hpp"

namespace attacca::ir {
namespace {

// Where a code is in its block: the byte, and the shift of a 4-bit one.
struct CodePlace {
  uint16_t byte;
  uint8_t shift;
};
using BlockPlaces = std::array<CodePlace, kPackedBlock * kPackedBlock>;

// With scales of u8.
CodePlace place_of_whole(int n, int k) {
  const int fragment = n / 16, row = n % 16, step = k / 32, column = k % 32;
  const int lane = row % 8 * 4 + column % 16 / 4, word = step * 2 + column / 16;
  return {static_cast<uint16_t>(fragment * 512 + lane * 16 + word * 4 + column % 4),
          static_cast<uint8_t>(row / 8 * 4)};
}

CodePlace place_in_block(int n, int k, int bits) {
  const int fragment = n / 16, row = n % 16, step = k / 16, column = k % 16;
  const int lane = row % 8 * 4 + column % 8 / 2;
  const int neighbours = row / 8 + column / 8 * 2, second = column % 2;
  if (bits == 4) {
    const int nibble = neighbours + second * 4;
    return {static_cast<uint16_t>(fragment * 512 + lane * 16 + step * 4 + nibble / 2),
            static_cast<uint8_t>(nibble % 2 * 4)};
  }
  return {static_cast<uint16_t>(fragment * 1024 + step / 2 * 512 + lane * 16 + step % 2 * 8 +
                                neighbours * 2 + second),
          0};
}

const BlockPlaces& places(const Packing& packing) {
  static const auto tables = [] {
    std::array<BlockPlaces, 3> all{};
    for (int n = 0; n < kPackedBlock; ++n)
      for (int k = 0; k < kPackedBlock; ++k) {
        const int at = n * kPackedBlock + k;
        all[0][at] = place_in_block(n, k, 4);
        all[1][at] = place_in_block(n, k, 8);
        all[2][at] = place_of_whole(n, k);
      }
    return all;
  }();
  return tables[packing.whole() ? 2 : packing.bits == 4 ? 0 : 1];
}

// The bits to invert in a stored code to get the weights' own bits, and back.
uint8_t flip_of(const Packing& packing) {
  if (packing.weights != DType::S8) return 0;
  return packing.bits == 4 ? 0x08 : 0x80;
}

int64_t entry_of(const PackedLayout& layout, int64_t n, int64_t group) {
  return (n / kPackedBlock * layout.groups + group) * kPackedBlock + n % 8 * 8 +
         n % kPackedBlock / 8;
}

// Visits every code of an (N, K) matrix: visit(n, k, offset of its byte among the codes, shift).
template <class Visit>
void for_each_code(const PackedLayout& layout, Visit&& visit) {
  const BlockPlaces& table = places(layout.packing);
  for (int64_t n = 0; n < layout.n; ++n)
    for (int64_t first = 0; first < layout.k; first += kPackedBlock) {
      const int64_t block = n / kPackedBlock * layout.blocks_k() + first / kPackedBlock;
      const int64_t base = block * layout.block_bytes();
      const CodePlace* row = &table[static_cast<size_t>(n % kPackedBlock) * kPackedBlock];
      const int64_t count = std::min<int64_t>(kPackedBlock, layout.k - first);
      for (int64_t i = 0; i < count; ++i) visit(n, first + i, base + row[i].byte, row[i].shift);
    }
}

std::string shape_text(const Tensor& tensor) {
  return fmt::format("{}{}", name(tensor.dtype()), to_string(tensor.shape()));
}

Status check_weights(const Tensor& weights, const Packing& packing) {
  if (weights.dtype() != packing.weights || weights.shape().size() != 2)
    return fail(
        fmt::format("weights {} for a packing of {}", shape_text(weights), weights_name(packing)),
        {},
        fmt::format("give (N, K) of {}{}", name(packing.weights),
                    packing.bits == 4 ? ", two a byte: (N, K / 2)" : ""));
  return {};
}

// (N, groups), or (N) where there is one group.
Status check_entries(const Tensor& tensor, const char* what, DType dtype,
                     const PackedLayout& layout) {
  const std::vector<int64_t> full = {layout.n, layout.groups}, row = {layout.n};
  if (tensor.dtype() == dtype &&
      (tensor.shape() == full || (layout.groups == 1 && tensor.shape() == row)))
    return {};
  return fail(
      fmt::format("{} {}, wanted {}{}", what, shape_text(tensor), name(dtype), to_string(full)), {},
      "one a row and group");
}

Status check_nan_free(const Tensor& weights) {
  const auto* bytes = weights.as<uint8_t>();
  for (int64_t i = 0; i < weights.size(); ++i)
    if ((bytes[i] & 0x7f) == 0x7f)
      return fail(fmt::format("the weight at {} is NaN", i), {},
                  "fix the checkpoint: a NaN weight makes a whole column of results NaN");
  return {};
}

// With scales of u8.
Status check_whole(const Tensor& weights, const Tensor& scales, const std::optional<Tensor>& zeros,
                   const PackedLayout& layout) {
  const auto* from = weights.as<uint8_t>();
  const int flip = flip_of(layout.packing);
  for (int64_t n = 0; n < layout.n; ++n)
    for (int64_t k = 0; k < layout.k; ++k) {
      const int64_t group = layout.packing.group == 0 ? 0 : k / layout.packing.group;
      const int64_t entry = n * layout.groups + group;
      const int code = (from[(n * layout.k + k) / 2] >> (k % 2 * 4) & 15) ^ flip;
      const int64_t zero = zeros ? zeros->integer_at(entry) + flip : flip;
      const int64_t weight = (code - zero) * scales.integer_at(entry);
      if (weight < -128 || weight > 127)
        return fail(fmt::format("the weight at [{}, {}] is {}, no s8", n, k, weight), {},
                    "choose smaller scales: code less zero point, times its scale, is an s8");
    }
  return {};
}

void put_codes(const Tensor& weights, const PackedLayout& layout, uint8_t* to) {
  const auto* from = weights.as<uint8_t>();
  const Packing& packing = layout.packing;
  const uint8_t flip = flip_of(packing);
  // Padding represents zero, or at least finite numbers.
  const uint8_t pad = packing.bits == 4 ? static_cast<uint8_t>(flip << 4 | flip) : flip;
  std::memset(to, pad, layout.blocks_n() * layout.blocks_k() * layout.block_bytes());
  for_each_code(layout, [&](int64_t n, int64_t k, int64_t at, int shift) {
    if (packing.bits == 8) {
      to[at] = from[n * layout.k + k] ^ flip;
    } else {
      const int code = (from[n * (layout.k / 2) + k / 2] >> (k % 2 * 4) & 15) ^ flip;
      to[at] = static_cast<uint8_t>((to[at] & ~(15 << shift)) | code << shift);
    }
  });
}

template <class T>
void put_entries(const Tensor& from, const PackedLayout& layout, std::byte* to) {
  for (int64_t n = 0; n < layout.n; ++n)
    for (int64_t group = 0; group < layout.groups; ++group)
      std::memcpy(to + entry_of(layout, n, group) * static_cast<int64_t>(sizeof(T)),
                  from.as<T>() + n * layout.groups + group, sizeof(T));
}
template <class T>
void get_entries(const std::byte* from, const PackedLayout& layout, Tensor& to) {
  for (int64_t n = 0; n < layout.n; ++n)
    for (int64_t group = 0; group < layout.groups; ++group)
      std::memcpy(to.as<T>() + n * layout.groups + group,
                  from + entry_of(layout, n, group) * static_cast<int64_t>(sizeof(T)), sizeof(T));
}

// A zero point as a stored code.
Result<uint8_t> stored_zero(const Tensor& zeros, int64_t at, const Packing& packing) {
  const int64_t zero = zeros.integer_at(at), turned = zero + flip_of(packing);
  if (turned < 0 || turned >> packing.bits != 0)
    return fail(fmt::format("the zero point {} is no {}", zero, weights_name(packing)), {},
                "zero points are codes");
  return static_cast<uint8_t>(turned);
}

Status put_zeros(const Tensor& zeros, const PackedLayout& layout, uint8_t* to) {
  for (int64_t n = 0; n < layout.n; ++n)
    for (int64_t group = 0; group < layout.groups; ++group) {
      ATTACCA_TRY(to[entry_of(layout, n, group)],
                  stored_zero(zeros, n * layout.groups + group, layout.packing));
    }
  return {};
}

// Whether codes and scales may be multiplied in one step: scale * 2^127 and scale / 8 are exact.
bool scales_fold(const Tensor& scales, const Packing& packing) {
  if (!may_fold(packing)) return false;
  for (int64_t i = 0; i < scales.size(); ++i) {
    const double size = std::abs(scales.number_at(i));
    if (!(size == 0 || (size >= 0x1p-123 && size < 2))) return false;
  }
  return true;
}

}  // namespace

Result<Tensor> pack(const Quantized& from, const Packing& packing) {
  ATTACCA_TRY_VOID(check(packing));
  ATTACCA_TRY_VOID(check_weights(from.weights, packing));
  const int64_t columns = from.weights.shape()[1];
  ATTACCA_TRY(const PackedLayout layout, packed_layout(packing, from.weights.shape()[0],
                                                       packing.bits == 4 ? columns * 2 : columns));
  ATTACCA_TRY_VOID(check_entries(from.scales, "scales", packing.scales, layout));
  if (packing.zeros != from.zeros.has_value())
    return fail(packing.zeros ? "no zero points were given" : "zero points that the packing lacks");
  if (from.zeros)
    ATTACCA_TRY_VOID(check_entries(*from.zeros, "zero points", packing.weights, layout));
  ATTACCA_TRY(const Tensor weights, from.weights.contiguous());
  ATTACCA_TRY(const Tensor scales, from.scales.contiguous());
  if (packing.weights == DType::F8E4M3) ATTACCA_TRY_VOID(check_nan_free(weights));
  if (packing.whole()) ATTACCA_TRY_VOID(check_whole(weights, scales, from.zeros, layout));
  ATTACCA_TRY(Tensor packed, Tensor::make(DType::U8, {layout.bytes}));
  put_codes(weights, layout, packed.as<uint8_t>() + kPackedHeaderBytes);
  switch (size_of(packing.scales)) {
    case 1:
      put_entries<uint8_t>(scales, layout, packed.data() + layout.scales_at);
      break;
    case 2:
      put_entries<uint16_t>(scales, layout, packed.data() + layout.scales_at);
      break;
    default:
      put_entries<uint32_t>(scales, layout, packed.data() + layout.scales_at);
  }
  if (from.zeros) {
    ATTACCA_TRY(const Tensor zeros, from.zeros->contiguous());
    ATTACCA_TRY_VOID(put_zeros(zeros, layout, packed.as<uint8_t>() + layout.zeros_at));
  }
  const std::span<const std::byte> bytes(packed.data(), static_cast<size_t>(layout.bytes));
  const PackedHeader header =
      packed_header(layout, packed_body_hash(bytes), scales_fold(scales, packing));
  std::memcpy(packed.data(), header.data(), header.size());
  return packed;
}

Result<Quantized> unpack(std::span<const std::byte> bytes) {
  ATTACCA_TRY(const PackedLayout layout, verify_packed(bytes));
  const Packing& packing = layout.packing;
  Quantized result;
  const int64_t columns = packing.bits == 4 ? layout.k / 2 : layout.k;
  ATTACCA_TRY(result.weights, Tensor::make(packing.weights, {layout.n, columns}));
  ATTACCA_TRY(result.scales, Tensor::make(packing.scales, {layout.n, layout.groups}));
  const auto* codes = reinterpret_cast<const uint8_t*>(bytes.data()) + kPackedHeaderBytes;
  const uint8_t flip = flip_of(packing);
  auto* weights = result.weights.as<uint8_t>();
  for_each_code(layout, [&](int64_t n, int64_t k, int64_t at, int shift) {
    if (packing.bits == 8)
      weights[n * columns + k] = codes[at] ^ flip;
    else
      weights[n * columns + k / 2] |=
          static_cast<uint8_t>(((codes[at] >> shift & 15) ^ flip) << (k % 2 * 4));
  });
  switch (size_of(packing.scales)) {
    case 1:
      get_entries<uint8_t>(bytes.data() + layout.scales_at, layout, result.scales);
      break;
    case 2:
      get_entries<uint16_t>(bytes.data() + layout.scales_at, layout, result.scales);
      break;
    default:
      get_entries<uint32_t>(bytes.data() + layout.scales_at, layout, result.scales);
  }
  if (packing.zeros) {
    ATTACCA_TRY(result.zeros, Tensor::make(packing.weights, {layout.n, layout.groups}));
    const auto* zeros = reinterpret_cast<const uint8_t*>(bytes.data()) + layout.zeros_at;
    for (int64_t n = 0; n < layout.n; ++n)
      for (int64_t group = 0; group < layout.groups; ++group)
        result.zeros->set_integer(n * layout.groups + group,
                                  zeros[entry_of(layout, n, group)] - flip);
  }
  return result;
}

void dequantize(std::span<const std::byte> bytes, const PackedLayout& layout, Tensor& result) {
  ATTACCA_CHECK(result.size() == layout.n * layout.k && result.is_contiguous(), "a dense result");
  const Packing& packing = layout.packing;
  const bool exact = result.dtype() == DType::F64;
  const auto* codes = reinterpret_cast<const uint8_t*>(bytes.data()) + kPackedHeaderBytes;
  const auto* zeros = reinterpret_cast<const uint8_t*>(bytes.data()) + layout.zeros_at;
  // Copied, because a tensor of bytes may have any alignment.
  const int64_t entries = layout.blocks_n() * layout.groups * kPackedBlock;
  const auto first = bytes.begin() + layout.scales_at;
  std::vector<std::byte> aligned(first, first + entries * size_of(packing.scales));
  const Tensor scales = Tensor::view(packing.scales, {entries}, aligned.data());
  for_each_code(layout, [&](int64_t n, int64_t k, int64_t at, int shift) {
    const int64_t entry = entry_of(layout, n, packing.group == 0 ? 0 : k / packing.group);
    double weight;
    if (packing.weights == DType::F8E4M3) {
      weight = decode8(DType::F8E4M3, codes[at]);
    } else {
      const int code = packing.bits == 4 ? codes[at] >> shift & 15 : codes[at];
      weight = code - (packing.zeros ? zeros[entry] : flip_of(packing));
    }
    const double product = weight * scales.number_at(entry);
    result.set_number(n * layout.k + k, exact ? product : round_to(DType::F32, product));
  });
}

}  // namespace attacca::ir
