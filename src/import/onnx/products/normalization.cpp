// Normalisations: of layers, of root mean squares, of batches, of groups and instances of channels,
// of neighbouring channels.
#include "fmt/format.h"

#include "import/onnx/ops.hpp"

namespace attacca::import {
namespace {

using ir::Dim;
using ir::DType;
using ir::Op;
using ir::Shape;
using ir::Value;

// The type statistics are computed in: f32 for the narrow floats unless stash_type says otherwise.
DType stash_type(Node& node, DType dtype) {
  return node.integer("stash_type", 1) == 1 && dtype != DType::F64 ? DType::F32 : dtype;
}

// A vector over axis 1 of a tensor of `rank`.
Expr channels(Node& node, size_t i, int64_t rank) {
  const Expr x = node.x(i);
  if (!x.value) return x;
  Shape shape(static_cast<size_t>(rank), 1);
  if (rank >= 2 && node.rank(*x.value) == 1) shape[1] = node.shape(*x.value)[0];
  return rank >= 2 ? reshape(x, shape) : x;
}

struct Centred {
  Expr mean, centred, inverse;  // inverse: 1 / sqrt(var + eps)
};

Centred centre(const Expr& x, const std::vector<int64_t>& axes, double epsilon) {
  const Expr mean = reduce(Op::Mean, x, axes, true);
  const Expr centred = x - mean;
  const Expr variance = reduce(Op::Mean, emit(Op::Square, centred), axes, true);
  return {mean, centred, emit(Op::Rsqrt, variance + epsilon)};
}

}  // namespace

Result<Outputs> lp_normalization(Node& node) {
  ATTACCA_TRY(const Value x, node.input(0));
  ATTACCA_TRY(const int64_t axis, normalise_axis(node.integer("axis", -1), node.rank(x)));
  const int64_t p = node.integer("p", 2);
  if (p != 1 && p != 2) return fail(fmt::format("p={}", p), {}, "use p=1 or p=2");
  const Op op = p == 1 ? Op::Abs : Op::Square;
  const Expr sum = reduce(Op::Sum, emit(op, node.expr(x)), {axis}, true);
  return node.expr(x) / (p == 1 ? sum : emit(Op::Sqrt, sum));
}

Result<Outputs> layer_normalization(Node& node) {
  ATTACCA_TRY(const Value x, node.input(0));
  const DType dtype = node.dtype(x), stash = stash_type(node, dtype);
  ATTACCA_TRY(const int64_t axis, normalise_axis(node.integer("axis", -1), node.rank(x)));
  const double epsilon = node.real("epsilon", 1e-5);
  const Centred c = centre(cast(node.expr(x), stash), axes_from(axis, node.rank(x)), epsilon);
  Expr y = cast(c.centred * c.inverse, dtype) * node.x(1);
  if (node.has(2)) y = y + node.x(2);
  ATTACCA_TRY(const Value result, y.value);
  ATTACCA_TRY(const Value mean, c.mean.value);
  ATTACCA_TRY(const Value inverse, c.inverse.value);
  return std::vector<Value>{result, mean, inverse};
}

Expr layer_norm(Node& node, Value x, size_t scale, size_t bias, double epsilon) {
  const DType dtype = node.dtype(x);
  const Centred c =
      centre(cast(node.expr(x), stash_type(node, dtype)), {node.rank(x) - 1}, epsilon);
  const Expr y = cast(c.centred * c.inverse, dtype) * node.x(scale);
  return node.has(bias) ? y + node.x(bias) : y;
}

Expr rms_norm(Node& node, Value x, size_t scale, int64_t axis, double epsilon) {
  const DType dtype = node.dtype(x);
  const Expr in = cast(node.expr(x), stash_type(node, dtype));
  const Expr square = reduce(Op::Mean, emit(Op::Square, in), axes_from(axis, node.rank(x)), true);
  return cast(in * emit(Op::Rsqrt, square + epsilon), dtype) * node.x(scale);
}

Result<Outputs> rms_normalization(Node& node) {
  ATTACCA_TRY(const Value x, node.input(0));
  ATTACCA_TRY(const int64_t axis, normalise_axis(node.integer("axis", -1), node.rank(x)));
  return rms_norm(node, x, 1, axis, node.real("epsilon", 1e-5));
}

Result<Outputs> batch_normalization(Node& node) {
  if (node.integer("training_mode", 0) != 0)
    return fail("BatchNormalization in training mode is not supported", {},
                "export the model for inference");
  if (node.integer("spatial", 1) == 0)
    return fail("BatchNormalization with spatial=0 is not supported", {}, "export with opset 9");
  for (size_t i = 1; i < 5; ++i)
    if (node.wants(i))
      return fail("BatchNormalization yields statistics", {}, "export for inference");
  ATTACCA_TRY(const Value x, node.input(0));
  const int64_t rank = node.rank(x);
  const double epsilon = node.real("epsilon", 1e-5);
  const Expr inverse = emit(Op::Rsqrt, channels(node, 4, rank) + epsilon);
  const Expr centred = node.expr(x) - channels(node, 3, rank);
  return centred * inverse * channels(node, 1, rank) + channels(node, 2, rank);
}

Result<Outputs> instance_normalization(Node& node) {
  ATTACCA_TRY(const Value x, node.input(0));
  const int64_t rank = node.rank(x);
  if (rank < 3) return fail("InstanceNormalization needs spatial axes");
  const Centred c = centre(node.expr(x), axes_from(2, rank), node.real("epsilon", 1e-5));
  return c.centred * c.inverse * channels(node, 1, rank) + channels(node, 2, rank);
}

Result<Outputs> mean_variance_normalization(Node& node) {
  ATTACCA_TRY(const Value x, node.input(0));
  const auto listed = node.integer_list("axes").value_or(std::vector<int64_t>{0, 2, 3});
  ATTACCA_TRY(const std::vector<int64_t> axes, normalise_axes(listed, node.rank(x)));
  const Expr in = node.expr(x), centred = in - reduce(Op::Mean, in, axes, true);
  const Expr variance = reduce(Op::Mean, emit(Op::Square, centred), axes, true);
  return centred / (emit(Op::Sqrt, variance) + 1e-9);
}

// Each of num_groups groups of channels, with all places, has a mean and a variance. Scales and
// biases are those of groups up to opset 20, of channels since.
Result<Outputs> group_normalization(Node& node) {
  ATTACCA_TRY(const Value x, node.input(0));
  const Shape shape = node.shape(x);
  const int64_t rank = node.rank(x), groups = node.integer("num_groups", 0);
  if (rank < 3 || !shape[1].is_static())
    return fail(fmt::format("GroupNormalization of {}", ir::to_string(shape)), {},
                "give a tensor of channels, of a known number, and spatial axes");
  const int64_t count = shape[1].value();
  if (groups < 1 || count % groups != 0)
    return fail(fmt::format("num_groups={} of {} channels", groups, count), {},
                "give a divisor of the channels");
  Shape apart = shape;
  apart[1] = Dim(groups);
  apart.insert(apart.begin() + 2, Dim(count / groups));
  const DType dtype = node.dtype(x);
  const Centred c = centre(reshape(cast(node.expr(x), stash_type(node, dtype)), apart),
                           axes_from(2, rank + 1), node.real("epsilon", 1e-5));
  const Expr y = cast(c.centred * c.inverse, dtype);
  if (node.opset() >= 21)
    return reshape(y, shape) * channels(node, 1, rank) + channels(node, 2, rank);
  return reshape(y * channels(node, 1, rank + 1) + channels(node, 2, rank + 1), shape);
}

// x / (bias + alpha / size * the sum of the squares of `size` neighbouring channels) ^ beta.
Result<Outputs> local_response_normalization(Node& node) {
  constexpr int64_t kMostChannels = 64;
  ATTACCA_TRY(const Value x, node.input(0));
  const Shape shape = node.shape(x);
  const int64_t size = node.integer("size", 0);
  if (shape.size() < 2 || size < 1 || size > kMostChannels)
    return fail(fmt::format("LRN of {} with size={}", ir::to_string(shape), size), {},
                fmt::format("give a tensor with channels and a size of 1 to {}", kMostChannels));
  const Expr in = node.expr(x), square = emit(Op::Square, in);
  const auto none = [&](int64_t channels) {
    Shape of = shape;
    of[1] = Dim(channels);
    return broadcast_to(scalar_like(square, 0), of);
  };
  const int64_t before = (size - 1) / 2, behind = size / 2;
  std::vector<Expr> parts{square};
  if (before > 0) parts.insert(parts.begin(), none(before));
  if (behind > 0) parts.push_back(none(behind));
  const Expr padded = parts.size() > 1 ? concat(parts, 1) : square;
  Expr sum = slice_axis(padded, 1, Dim(0), shape[1]);
  for (int64_t i = 1; i < size; ++i) sum = sum + slice_axis(padded, 1, Dim(i), Dim(i) + shape[1]);
  const Expr scaled = sum * (node.real("alpha", 1e-4) / static_cast<double>(size));
  return in / emit(Op::Pow, scaled + node.real("bias", 1), node.real("beta", 0.75));
}

}  // namespace attacca::import
