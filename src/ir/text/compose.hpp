// Ops that are compositions of table ops. The text form and the importers call them by name.
#pragma once

#include <vector>

#include "ir/graph/graph.hpp"

namespace attacca::ir {

Result<Value> cast(Graph& graph, Value x, DType dtype, bool saturate = false);
// Any binary elementwise op with a scalar of the operand's dtype.
Result<Value> binary(Graph& graph, Op op, Value x, double y);
Result<Value> binary(Graph& graph, Op op, double x, Value y);

// Each along `axis` (negative counts from the end).
Result<Value> softmax(Graph& graph, Value x, int64_t axis = -1);
// (x - mean) * rsqrt(var + eps) * weight + bias over the last axis; weight and bias optional.
Result<Value> layernorm(Graph& graph, Value x, std::optional<Value> weight,
                        std::optional<Value> bias, double eps = 1e-5);
// x * rsqrt(mean(x*x) + eps) * weight over the last axis, in f32 for 16-bit x.
Result<Value> rmsnorm(Graph& graph, Value x, std::optional<Value> weight, double eps = 1e-6);
// Equal parts along an axis.
Result<std::vector<Value>> split(Graph& graph, Value x, int64_t parts, int64_t axis = -1);
Result<std::vector<Value>> split_sizes(Graph& graph, Value x, const std::vector<int64_t>& sizes,
                                       int64_t axis = -1);
// (f32(q) - zero_point) * scale, broadcasting.
Result<Value> dequantize(Graph& graph, Value q, Value scale, std::optional<Value> zero_point = {});
// cast(round(x / scale) + zero_point, dtype, saturate): ties to even, as ONNX QuantizeLinear.
Result<Value> quantize(Graph& graph, Value x, Value scale, std::optional<Value> zero_point,
                       DType dtype);
// x[begin:end:step] along one axis, Python's rules for negative and missing bounds. A symbolic
// bound counts as positive and is not clamped.
struct PythonSlice {
  std::optional<Dim> begin = {}, end = {};
  int64_t step = 1;
};
// Missing ranges are whole axes.
Result<Value> slice(Graph& graph, Value x, const std::vector<PythonSlice>& ranges);

}  // namespace attacca::ir
