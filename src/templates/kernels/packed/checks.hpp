// Shared by the builders of templates for packed weights.
#pragma once

#include "host/checks.hpp"
#include "packed/codes.cuh"

namespace {

inline void describe_packed(attacca_info& info) {
  info.input_types[0] = attacca_packed_weights::kScaleBits == 8 ? "s8"
                        : attacca_packed_weights::kBf16         ? "bf16"
                                                                : "f16";
  info.input_types[1] = nullptr;
  info.packed_bits = attacca_packed_weights::kCodeBits;
  info.packed_floats = attacca_packed_weights::kCodeFloats;
  info.packed_scale_bits = attacca_packed_weights::kScaleBits;
}

inline int check_packed(const attacca_gemm_arguments& g, char* reason, size_t bytes) {
  if (g.batch > 1)
    return refuse(reason, bytes, "packed weights are one matrix, the product has %d", g.batch);
  if (g.packed.groups < 1) return refuse(reason, bytes, "%d groups of scales", g.packed.groups);
  return check_address("the packed tensor", g.b.pointer, 16, reason, bytes);
}

}  // namespace
