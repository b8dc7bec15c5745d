#include "import/onnx/products/attention.hpp"

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

// Each head of keys or values for `share` heads of queries.
Expr repeated_heads(Node& node, const Expr& x, const Dim& share) {
  if (!x.value || share.is(1)) return x;
  const Shape s = node.shape(*x.value);
  return reshape(
      broadcast_to(reshape(x, {s[0], s[1], 1, s[2], s[3]}), {s[0], s[1], share, s[2], s[3]}),
      {s[0], s[1] * share, s[2], s[3]});
}

// A shorter mask hides the keys behind its end.
Result<Expr> padded_mask(Node& node, Value mask, const Dim& keys) {
  Shape border = node.shape(mask);
  if (border.empty()) return fail("a mask without axes");
  const Dim missing = keys - border.back();
  if (border.back().is(1) || !missing.is_static() || missing.value() <= 0) return node.expr(mask);
  border.back() = missing;
  const bool truth = node.dtype(mask) == DType::Bool;
  const Value hidden =
      node.graph().literal(truth ? 0 : -std::numeric_limits<double>::infinity(), node.dtype(mask));
  return concat({node.expr(mask), broadcast_to(node.expr(hidden), border)}, node.rank(mask) - 1);
}

// Scores, and which keys count for a query.
struct Masked {
  Expr scores;
  std::optional<Expr> counts = {};  // broadcasts to the scores; none: each counts

  void count_only(const Expr& some) {
    counts = counts ? emit(Op::And, std::vector<Expr>{*counts, some}) : some;
  }
  void hide_others(Node& node, const Expr& seen) {
    scores = where_seen(node, seen, scores);
    count_only(seen);
  }
};

// The mask: bool where keys count, or numbers to add, of which the lowest hides a key as minus
// infinity does.
Status mask_keys(Node& node, Masked& masked) {
  if (!node.has(3)) return {};
  ATTACCA_TRY(const Value given, node.input(3));
  ATTACCA_TRY(const Value value, masked.scores.value);
  ATTACCA_TRY(const Expr mask, padded_mask(node, given, node.shape(value)[3]));
  node.broadcasts({masked.scores, mask});
  if (node.dtype(given) == DType::Bool) {
    masked.hide_others(node, mask);
    return {};
  }
  const Expr added = cast(mask, node.dtype(value));
  masked.scores = masked.scores + added;
  masked.count_only(emit(Op::Not, emit(Op::Le, added, -largest_of(node.dtype(value)))));
  return {};
}

// The number of each batch's keys, [batch, 1, 1, 1]; none: all keys are a batch's own.
Result<std::optional<Expr>> ends_of_keys(Node& node, const Dim& batch) {
  if (!node.has(6)) return std::optional<Expr>();
  if (node.has(4)) return fail("nonpad_kv_seqlen together with past_key", {}, "give one of them");
  ATTACCA_TRY(const Value counts, node.input(6));
  if (!(node.shape(counts) == Shape{batch}))
    return fail(fmt::format("nonpad_kv_seqlen of shape {}, wanted [{}]",
                            ir::to_string(node.shape(counts)), ir::to_string(batch)));
  return std::optional(reshape(cast(node.expr(counts), DType::S64), {batch, 1, 1, 1}));
}

// Hides keys by the mask, those behind a batch's own and, with is_causal=, those after a query. The
// last query is at the last one of its batch's keys if their number is given; else the first query
// follows `past` keys.
Status mask_scores(Node& node, Masked& masked, const Dim& past) {
  ATTACCA_TRY(const Value value, masked.scores.value);
  const Shape shape = node.shape(value);
  ATTACCA_TRY_VOID(mask_keys(node, masked));
  ATTACCA_TRY(const auto end, ends_of_keys(node, shape[0]));
  if (node.integer("is_causal", 0) != 0) {
    const Expr first = end ? *end - number_of(node, shape[2]) : number_of(node, past);
    masked.hide_others(node, causally_seen(node, shape, first));
  } else if (end) {
    masked.hide_others(node, counting(node, shape[3], 4, 3) < *end);
  }
  return {};
}

// The softmax; a query for which no key counts has weights of 0. Without a mask or ends, each query
// sees its first key.
Expr weights_of_masked(Node& node, const Masked& masked, DType precise) {
  const Expr weights = softmax_in(masked.scores, precise);
  if (!masked.counts || (!node.has(3) && !node.has(6))) return weights;
  const Expr each = cast(*masked.counts, DType::F32);
  if (!each.value) return each;
  const Expr any = reduce(Op::ReduceMax, each, {node.rank(*each.value) - 1}, true) > 0.0;
  return where(any, weights, scalar_like(weights, 0.0));
}

struct HeadsAndPast {
  Heads heads;
  Dim past = 0;  // the number of earlier keys
};

// Queries, and keys and values behind earlier ones.
Result<HeadsAndPast> heads_of(Node& node) {
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
  return HeadsAndPast{{queries, keys, values}, past};
}

}  // namespace

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

Expr joined_heads(Node& node, const Expr& x) {
  if (!x.value) return x;
  const Shape shape = node.shape(*x.value);
  return reshape(permute(x, {0, 2, 1, 3}), {shape[0], shape[2], shape[1] * shape[3]});
}

Result<double> default_scale(Node& node, const Heads& heads) {
  ATTACCA_TRY(const Value q, heads.q.value);
  const auto size = node.shape(q)[3].maybe_value();
  if (!size || *size < 1) return fail("the size of a head is not fixed", {}, "give scale=");
  return 1 / std::sqrt(static_cast<double>(*size));
}

Result<Expr> scores_of(Node& node, const Heads& heads, double scale) {
  ATTACCA_TRY(const Value q, heads.q.value);
  ATTACCA_TRY(const Value k, heads.k.value);
  const Dim queries = node.shape(q)[1], keys = node.shape(k)[1];
  const auto share = keys.is(0) ? std::nullopt : divide(queries, keys);
  if (!share)
    return fail(fmt::format("{} heads of queries do not share {} of keys", ir::to_string(queries),
                            ir::to_string(keys)));
  const Expr turned = emit(Op::Transpose, repeated_heads(node, heads.k, *share));
  node.broadcasts({heads.q, turned}, 2);
  return matmul(heads.q, turned) * scale;
}

Expr where_seen(Node& node, const Expr& seen, const Expr& scores) {
  if (!scores.value) return scores;
  const double hidden = -std::numeric_limits<double>::infinity();
  return where(seen, scores, node.expr(node.graph().literal(hidden, node.dtype(*scores.value))));
}

Expr causally_seen(Node& node, const Shape& scores, const Expr& first) {
  const Expr query = counting(node, scores[2], 2, 0) + first;
  return emit(Op::Le, std::vector<Expr>{counting(node, scores[3], 2, 1), query});
}

Expr capped(const Expr& scores, double cap) {
  return cap == 0 ? scores : emit(Op::Tanh, scores / cap) * cap;
}

Expr softmax_in(const Expr& x, DType precise) {
  if (!x.value) return x;
  const Expr wide = cast(x, precise);
  if (!wide.value) return wide;
  return cast({x.graph, ir::softmax(*x.graph, *wide.value)}, x.graph->type(*x.value).dtype);
}

Expr weighted_values(Node& node, const Expr& weights, const Heads& heads) {
  if (!heads.v.value || !heads.q.value) return weights;
  const Shape shape = node.shape(*heads.v.value);
  const auto share =
      shape[1].is(0) ? std::nullopt : divide(node.shape(*heads.q.value)[1], shape[1]);
  if (!share)
    return node.failed(
        fmt::format("{} heads of values do not serve all queries", ir::to_string(shape[1])));
  if (!weights.value) return weights;
  const Expr values = of_extent(node, heads.v, 2, node.shape(*weights.value).back());
  const Expr repeated = repeated_heads(node, values, *share);
  node.broadcasts({weights, repeated}, 2);
  return matmul(weights, repeated);
}

Expr rotated(Node& node, const Expr& x, const Rotation& by) {
  if (!x.value) return x;
  const Shape shape = node.shape(*x.value);
  const int64_t width = by.width, half = width / 2;
  const Expr a = by.interleaved ? slice_axis(x, 3, 0, width, 2) : slice_axis(x, 3, 0, half);
  const Expr b = by.interleaved ? slice_axis(x, 3, 1, width, 2) : slice_axis(x, 3, half, width);
  const Expr real = by.cosine * a - by.sine * b, imaginary = by.sine * a + by.cosine * b;
  const Shape pair{shape[0], shape[1], shape[2], half, 1},
      turned{shape[0], shape[1], shape[2], width};
  const Expr front =
      by.interleaved ? reshape(concat({reshape(real, pair), reshape(imaginary, pair)}, 4), turned)
                     : concat({real, imaginary}, 3);
  return shape[3].is(width) ? front : concat({front, slice_axis(x, 3, width, shape[3])}, 3);
}

Result<Outputs> attention(Node& node) {
  ATTACCA_TRY(const HeadsAndPast found, heads_of(node));
  const Heads& heads = found.heads;
  ATTACCA_TRY(const Value q, heads.q.value);
  ATTACCA_TRY(const Value k, heads.k.value);
  ATTACCA_TRY(const Value v, heads.v.value);
  double scale = node.real("scale", 0.0);
  if (node.attribute("scale") == nullptr) {
    ATTACCA_TRY(scale, default_scale(node, heads));
  }
  DType precise = node.dtype(q);
  if (const int64_t code = node.integer("softmax_precision", 0); code != 0) {
    ATTACCA_TRY(precise, read_dtype(static_cast<int32_t>(code)));
  }
  // The scores after each step, of which qk_matmul_output_mode= chooses one. Early texts of opsets
  // 23 and 24 mask before softcap=, as the onnx package's reference does until 1.19; ONNX Runtime
  // and later texts mask after it.
  ATTACCA_TRY(const Expr products, scores_of(node, heads, scale));
  Masked masked{capped(products, node.real("softcap", 0.0))};
  std::vector<Expr> steps{products, masked.scores};
  ATTACCA_TRY_VOID(mask_scores(node, masked, found.past));
  const Expr weights = weights_of_masked(node, masked, precise);
  steps.insert(steps.end(), {masked.scores, weights});
  Expr y = weighted_values(node, weights, heads);
  ATTACCA_TRY(const Value given, node.input(0));
  if (node.rank(given) == 3) y = joined_heads(node, y);
  const int64_t step = node.integer("qk_matmul_output_mode", 0);
  if (step < 0 || step > 3) return fail(fmt::format("qk_matmul_output_mode={}", step));
  ATTACCA_TRY(const Value result, y.value);
  ATTACCA_TRY(const Value seen, steps[static_cast<size_t>(step)].value);
  return std::vector<Value>{result, k, v, seen};
}

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
  const Expr y = rotated(node, x, {cosine, sine, width, node.integer("interleaved", 0) != 0});
  return node.rank(given) == 3 ? joined_heads(node, y) : y;
}

}  // namespace attacca::import
