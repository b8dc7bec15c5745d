// Ops that stand for several: attention and rotary embedding, and the products and norms that
// onnxruntime's optimizer fuses.
#include <cmath>
#include <limits>

#include "fmt/format.h"

#include "import/onnx/ops.hpp"
#include "import/onnx/tensor.hpp"

namespace attacca::import {
namespace {

using ir::Dim;
using ir::DType;
using ir::Op;
using ir::Shape;
using ir::Value;

// [batch, length, heads * size] as [batch, heads, length, size]; of rank 4 it is so already.
Result<Expr> by_head(Node& node, Value x, int64_t heads) {
  const Shape shape = node.shape(x);
  if (shape.size() == 4) return node.expr(x);
  const auto size = heads < 1 || shape.size() != 3 ? std::nullopt : divide(shape[2], Dim(heads));
  if (!size)
    return fail(fmt::format("{} heads of a tensor of shape {}", heads, ir::to_string(shape)), {},
                "give [batch, heads, length, size], or [batch, length, features] and the number of "
                "heads, which divides the features");
  return permute(reshape(node.expr(x), {shape[0], shape[1], heads, *size}), {0, 2, 1, 3});
}

// The reverse, for a tensor that came with rank 3.
Expr joined_heads(Node& node, const Expr& x) {
  if (!x.value) return x;
  const Shape shape = node.shape(*x.value);
  return reshape(permute(x, {0, 2, 1, 3}), {shape[0], shape[2], shape[1] * shape[3]});
}

// Each head of keys or values for `share` heads of queries.
Expr repeated_heads(Node& node, const Expr& x, const Dim& share) {
  if (!x.value || share.is(1)) return x;
  const Shape s = node.shape(*x.value);
  return reshape(
      broadcast_to(reshape(x, {s[0], s[1], 1, s[2], s[3]}), {s[0], s[1], share, s[2], s[3]}),
      {s[0], s[1] * share, s[2], s[3]});
}

Expr lowest(Node& node, DType dtype) {
  return node.expr(node.graph().literal(-std::numeric_limits<double>::infinity(), dtype));
}

// The scores plus the mask: bool where they count, or numbers.
Result<Expr> masked(Node& node, const Expr& scores, DType dtype) {
  if (!node.has(3)) return scores;
  ATTACCA_TRY(const Value mask, node.input(3));
  if (node.dtype(mask) == DType::Bool) return where(node.expr(mask), scores, lowest(node, dtype));
  return scores + cast(node.expr(mask), dtype);
}

// No query sees keys behind its own place, counted after `past` earlier keys.
Expr causal(Node& node, const Expr& scores, DType dtype, const Dim& past) {
  if (!scores.value) return scores;
  const Shape shape = node.shape(*scores.value);
  const Expr query = counting(node, shape[2], 2, 0) + number_of(node, past);
  const Expr seen = emit(Op::Le, std::vector<Expr>{counting(node, shape[3], 2, 1), query});
  return where(seen, scores, lowest(node, dtype));
}

Expr softmax(const Expr& x) {
  if (!x.value) return x;
  return {x.graph, ir::softmax(*x.graph, *x.value)};
}

struct Heads {
  Expr q, k, v;
  Dim past;  // the number of earlier keys
};

// Queries, and keys and values behind earlier ones.
Result<Heads> heads_of(Node& node) {
  ATTACCA_TRY(const Value q, node.input(0));
  ATTACCA_TRY(const Value k, node.input(1));
  ATTACCA_TRY(const Value v, node.input(2));
  const int64_t own = node.integer("q_num_heads", 0), shared = node.integer("kv_num_heads", 0);
  ATTACCA_TRY(const Expr queries, by_head(node, q, own));
  ATTACCA_TRY(Expr keys, by_head(node, k, shared));
  ATTACCA_TRY(Expr values, by_head(node, v, shared));
  if (node.has(4) != node.has(5)) return fail("past_key without past_value, or the reverse");
  Dim past = 0;
  if (node.has(4)) {
    ATTACCA_TRY(const Value earlier, node.input(4));
    if (node.rank(earlier) != 4) return fail("past_key has rank 4");
    past = node.shape(earlier)[2];
    keys = concat({node.expr(earlier), keys}, 2);
    values = concat({node.x(5), values}, 2);
  }
  return Heads{queries, keys, values, past};
}

}  // namespace

Result<Outputs> attention(Node& node) {
  if (node.has(6)) return fail("nonpad_kv_seqlen is not supported", {}, "use a mask");
  ATTACCA_TRY(const Heads heads, heads_of(node));
  ATTACCA_TRY(const Value q, heads.q.value);
  ATTACCA_TRY(const Value k, heads.k.value);
  ATTACCA_TRY(const Value v, heads.v.value);
  const Shape queries = node.shape(q), keys = node.shape(k);
  const auto share =
      keys[1].is_static() && keys[1].is(0) ? std::nullopt : divide(queries[1], keys[1]);
  if (!share)
    return fail(fmt::format("{} heads of queries do not share {} of keys",
                            ir::to_string(queries[1]), ir::to_string(keys[1])));
  double scale = node.real("scale", 0.0);
  if (node.attribute("scale") == nullptr) {
    const auto size = queries[3].maybe_value();
    if (!size || *size < 1) return fail("the size of a head is not fixed", {}, "give scale=");
    scale = 1 / std::sqrt(static_cast<double>(*size));
  }
  const DType dtype = node.dtype(q);
  DType precise = dtype;
  if (const int64_t code = node.integer("softmax_precision", 0); code != 0) {
    ATTACCA_TRY(precise, read_dtype(static_cast<int32_t>(code)));
  }
  const Expr turned = emit(Op::Transpose, repeated_heads(node, heads.k, *share));
  // The scores after each step, of which qk_matmul_output_mode= chooses one.
  Expr scores = matmul(heads.q, turned) * scale;
  std::vector<Expr> steps{scores};
  ATTACCA_TRY(scores, masked(node, scores, dtype));
  if (node.integer("is_causal", 0) != 0) scores = causal(node, scores, dtype, heads.past);
  steps.push_back(scores);
  if (const double cap = node.real("softcap", 0.0); cap != 0)
    scores = emit(Op::Tanh, scores / cap) * cap;
  const Expr weights = cast(softmax(cast(scores, precise)), dtype);
  steps.insert(steps.end(), {scores, weights});
  Expr y = matmul(weights, repeated_heads(node, heads.v, *share));
  ATTACCA_TRY(const Value given, node.input(0));
  if (node.rank(given) == 3) y = joined_heads(node, y);
  const int64_t step = node.integer("qk_matmul_output_mode", 0);
  if (step < 0 || step > 3) return fail(fmt::format("qk_matmul_output_mode={}", step));
  ATTACCA_TRY(const Value result, y.value);
  ATTACCA_TRY(const Value seen, steps[static_cast<size_t>(step)].value);
  return std::vector<Value>{result, k, v, seen};
}

// Pairs of features, (i, i + half) or (2i, 2i + 1), turned by the angle of their token's place.
Result<Outputs> rotary_embedding(Node& node) {
  ATTACCA_TRY(const Value given, node.input(0));
  ATTACCA_TRY(const Expr x, by_head(node, given, node.integer("num_heads", 0)));
  ATTACCA_TRY(const Value value, x.value);
  const Shape shape = node.shape(value);
  const auto size = shape[3].maybe_value();
  const int64_t wanted = node.integer("rotary_embedding_dim", 0);
  const int64_t width = wanted == 0 && size ? *size : wanted;
  if (!size || width < 2 || width % 2 != 0 || width > *size)
    return fail(fmt::format("{} of {} features to rotate", width, ir::to_string(shape[3])));
  const int64_t half = width / 2;
  const auto angles = [&](size_t i) -> Result<Expr> {
    ATTACCA_TRY(const Value cache, node.input(i));
    Expr table = node.expr(cache);
    if (node.has(3))
      table = emit(Op::Gather, std::vector<Expr>{table, node.x(3)}, ir::AxisAttrs{0});
    ATTACCA_TRY(const Value chosen, table.value);
    const Shape from = node.shape(chosen);
    if (from.size() != 3 || !from[2].is(half))
      return fail(fmt::format("the cache of shape {} for {} features", ir::to_string(from), width));
    return reshape(table, {from[0], 1, from[1], half});
  };
  ATTACCA_TRY(const Expr cosine, angles(1));
  ATTACCA_TRY(const Expr sine, angles(2));
  const bool interleaved = node.integer("interleaved", 0) != 0;
  const Expr a = interleaved ? slice_axis(x, 3, 0, width, 2) : slice_axis(x, 3, 0, half);
  const Expr b = interleaved ? slice_axis(x, 3, 1, width, 2) : slice_axis(x, 3, half, width);
  const Expr real = cosine * a - sine * b, imaginary = sine * a + cosine * b;
  const Shape pair{shape[0], shape[1], shape[2], half, 1},
      turned{shape[0], shape[1], shape[2], width};
  const Expr rotated =
      interleaved ? reshape(concat({reshape(real, pair), reshape(imaginary, pair)}, 4), turned)
                  : concat({real, imaginary}, 3);
  const Expr y = width == *size ? rotated : concat({rotated, slice_axis(x, 3, width, *size)}, 3);
  return node.rank(given) == 3 ? joined_heads(node, y) : y;
}

}  // namespace attacca::import
