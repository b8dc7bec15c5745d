// The commonest epilogues of products of bytes as one loop each, straight from the accumulators to
// memory: numbers = f32(accumulator - shift) * scale, then activation(numbers + bias), times other
// such numbers or plus f32 ones, stored as f32 or quantised. fp32 mode only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "epilogue/epilogue.hpp"
#include "ir/graph/mode.hpp"

namespace attacca::run {

// What becomes f32 numbers: a row of accumulators, less a row of integers where there is one, times
// one or two scales in turn.
struct ScaledRow {
  const int32_t* accumulators = nullptr;
  int64_t stride = 0;              // from row to row
  const int32_t* shift = nullptr;  // one row for all, or null
  float scales[2] = {1, 1};
  int count = 1;  // of the scales
};

// One tile. Row strides in elements; within a row everything is contiguous.
struct IntegerChainArgs {
  ScaledRow x, gate;
  const float* bias = nullptr;  // one row for all, or null
  const float* other = nullptr;
  int64_t other_stride = 0;
  float quantum = 1, zero = 0;  // of a quantised result
  void* out = nullptr;
  int64_t out_stride = 0;
  int64_t rows = 0, columns = 0;
  float alpha = 1;
};
using IntegerChainKernel = void (*)(const IntegerChainArgs&);

// An epilogue that is such a chain, by its values (inputs, then nodes). Accumulators and `other`
// are inputs. What is neither must be the same for every row.
struct IntegerChain {
  struct Scaled {
    int accumulators = 0;
    std::optional<int> shift;
    std::vector<int> scales;
  };
  IntegerChainKernel kernel = nullptr;
  Scaled x;
  std::optional<Scaled> gate;
  std::optional<int> bias, other, quantum, zero;
  float alpha = 1;
};
std::optional<IntegerChain> match_integer_chain(const epilogue::Epilogue& epilogue, ir::Mode mode);

}  // namespace attacca::run
