#include "ir/graph/packing.hpp"

#include "fmt/format.h"

namespace attacca::ir {

Status check(const Packing& packing) {
  const DType weights = packing.weights, scales = packing.scales;
  if (!is_byte(weights) && weights != DType::F8E4M3)
    return fail(fmt::format("packed weights of {}", name(weights)), {}, "use s8, u8 or f8e4m3");
  if (packing.bits != 8 && !(packing.bits == 4 && weights != DType::F8E4M3))
    return fail(fmt::format("packed {} of {} bits", name(weights), packing.bits), {},
                "codes have 8 bits, of s8 and u8 also 4");
  if (scales != DType::F32 && !is_half(scales) && !packing.whole())
    return fail(fmt::format("scales of {}", name(scales)), {}, "use f32, f16, bf16 or u8");
  if (packing.whole() && packing.bits != 4)
    return fail(fmt::format("scales of u8 beside {}-bit codes", packing.bits), {},
                "use them with 4-bit codes");
  const int64_t group = packing.group;
  if (group != 0 && (group < 64 || (group & (group - 1)) != 0))
    return fail(fmt::format("groups of {}", group), {},
                "use 64, 128 or a larger power of two, or one scale a row");
  if (packing.whole() && group == 64)
    return fail("groups of 64 with scales of u8", {},
                "use 128 or a larger power of two, or one scale a row");
  if (packing.zeros && weights == DType::F8E4M3)
    return fail("zero points of f8e4m3 weights", {}, "leave them out");
  return {};
}

std::string weights_name(const Packing& packing) {
  if (packing.bits == 8) return std::string(name(packing.weights));
  return packing.weights == DType::S8 ? "s4" : "u4";
}

std::string to_string(const Packing& packing) {
  std::string text = fmt::format("weights={}", name(packing.weights));
  if (packing.bits != 8) text += fmt::format(", bits={}", packing.bits);
  if (packing.group != 0) text += fmt::format(", group={}", packing.group);
  text += fmt::format(", scales={}", name(packing.scales));
  if (packing.zeros) text += ", zeros=true";
  return text;
}

}  // namespace attacca::ir
