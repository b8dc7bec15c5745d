// The commonest epilogues as one loop each: activation(x + bias) * other, or + other, straight from
// the accumulators to memory. fp32 mode only: nothing rounds on the way.
#pragma once

#include <cstddef>
#include <optional>

#include "epilogue/epilogue.hpp"
#include "ir/graph/mode.hpp"

namespace attacca::run {

// GeluCoarse is Gelu to 17 bits, for a bf16 result of a product that the graph rounds to bf16
// first.
enum class Activation : uint8_t { None, Relu, Gelu, GeluCoarse, GeluTanh, Silu };
enum class Join : uint8_t { None, Mul, Add };

// One tile. Row strides in elements; within a row everything is contiguous.
struct ChainArgs {
  const float* x = nullptr;
  int64_t x_stride = 0;
  const float* bias = nullptr;  // one row for all
  const void* other = nullptr;  // f32 or bf16
  int64_t other_stride = 0;
  void* out = nullptr;  // f32 or bf16
  int64_t out_stride = 0;
  int64_t rows = 0, columns = 0;
  float alpha = 1;
};
using ChainKernel = void (*)(const ChainArgs&);

// nullptr if there is none for the instruction set.
ChainKernel chain_kernel(bool bias, Activation activation, Join join, bool other_is_bf16,
                         bool out_is_bf16);

// An epilogue that is such a chain, by the indices of its inputs.
struct Chain {
  ChainKernel kernel = nullptr;
  int x = 0;
  std::optional<int> bias, other;
  float alpha = 1;
};
std::optional<Chain> match_chain(const epilogue::Epilogue& epilogue, ir::Mode mode);

}  // namespace attacca::run
