// The reference interpreter: computes one node after the other, as the numerics contract says.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "ir/graph/graph.hpp"
#include "ir/graph/tensor.hpp"

namespace attacca::ir {

enum class Precision : uint8_t {
  // Every float operation in f64, never rounded, not even by a cast to a float dtype: the errors of
  // both modes are measured against it. Casts to integers and bool keep their meaning.
  Exact,
  // The fp32 mode: f32 arithmetic (f64 for f64), rounded where the graph casts, where a node
  // declares a compute type, and at the outputs.
  Fp32,
  // The eager mode: each node's result is computed from its rounded operands, rounded to f32 (f64
  // for f64), then to the node's dtype. Matrix products accumulate in f64 before that.
  Eager,
};

// The tensors for the graph's inputs, by name.
using Bindings = std::map<std::string, Tensor>;

// Refuses a tensor of another dtype than the graph's input.
Status check_dtype(const Node& input, const Tensor& tensor);

struct InterpreterOptions {
  Precision precision = Precision::Exact;
  // Raw accumulators (f32, or s32 for integer products) to use for these matmul nodes instead of
  // multiplying; rounding to the node's dtype still follows in Eager.
  std::map<Value, Tensor> accumulators = {};
};

// With Exact, float outputs are f64 tensors; otherwise outputs have their own dtypes. Errors: an
// input that is missing or has a wrong shape or dtype, gather indices out of range, no memory.
Result<std::vector<Tensor>> interpret(const Graph& graph, const Bindings& inputs,
                                      const InterpreterOptions& options = {});

}  // namespace attacca::ir
