// Each number of a 16-bit dtype through a user's kernel, in parts that the interpreter can run.
#pragma once

#include <cstdint>

#include "kernels/arguments.hpp"

namespace attacca::kernels {

// Ops of 16 bits that eager mode computes without f64, always or where that decides.
inline constexpr std::string_view kNarrowOps[] = {"exp(out)",
                                                  "sigmoid(out)",
                                                  "silu(out)",
                                                  "quick_gelu(out)",
                                                  "gelu_tanh(out)",
                                                  "gelu(out)",
                                                  "tanh(out)",
                                                  "mish(out)",
                                                  "softplus(out)",
                                                  "reciprocal(out)",
                                                  "hardswish(out)",
                                                  "elu(out)",
                                                  "selu(out)",
                                                  "div(out, full(divisor))",
                                                  "swiglu(out, full(gate))"};

// "silu_bf16", for test names.
std::string narrow_op_name(std::string_view op, ir::DType dtype);

inline constexpr uint32_t kNumberParts = 8;

struct NumberPart {
  Kernel kernel;
  Arguments arguments;
};
// A kernel that stores the numbers of which the bits' remainder by kNumberParts is `part`, or those
// of the other sign. REQUIRES: bf16 or f16.
Result<NumberPart> number_part(ir::DType dtype, std::string_view epilogue, uint32_t part);

}  // namespace attacca::kernels
