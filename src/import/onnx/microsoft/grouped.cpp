// GroupQueryAttention and RotaryEmbedding, as onnxruntime's model builder writes them.
#include "fmt/format.h"

#include "import/onnx/ops.hpp"
#include "import/onnx/products/attention.hpp"
#include "import/onnx/products/linear.hpp"
#include "ir/graph/size_functions.hpp"

namespace attacca::import {
namespace {

using ir::Dim;
using ir::DType;
using ir::Op;
using ir::Shape;
using ir::Value;

// Cosines or sines at the places, [batch or 1, length]: [batch or 1, 1, length, half].
Result<Expr> angles_at(Node& node, size_t cache, const Expr& places) {
  ATTACCA_TRY(const Value table, node.input(cache));
  if (node.rank(table) != 2)
    return fail(fmt::format("a cache of shape {}", ir::to_string(node.shape(table))), {},
                "give [places, half of the features to rotate]");
  const Expr chosen =
      emit(Op::Gather, std::vector<Expr>{node.expr(table), places}, ir::AxisAttrs{0});
  ATTACCA_TRY(const Value value, chosen.value);
  const Shape shape = node.shape(value);
  return reshape(chosen, {shape[0], 1, shape[1], shape[2]});
}

// Caches as inputs at `cache` and after it; their width decides how many features are rotated.
Result<Expr> rotated_at(Node& node, const Expr& x, size_t cache, const Expr& places,
                        bool interleaved) {
  ATTACCA_TRY(const Value value, x.value);
  ATTACCA_TRY(const Expr cosine, angles_at(node, cache, places));
  ATTACCA_TRY(const Expr sine, angles_at(node, cache + 1, places));
  ATTACCA_TRY(const Value angle, cosine.value);
  const auto half = node.shape(angle)[3].maybe_value(), size = node.shape(value)[3].maybe_value();
  if (!half || !size || *half < 1 || 2 * *half > *size)
    return fail(fmt::format("a cache of {} angles for heads of {} features",
                            ir::to_string(node.shape(angle)[3]),
                            ir::to_string(node.shape(value)[3])));
  return rotated(node, x, {cosine, sine, 2 * *half, interleaved});
}

// Places of RotaryEmbedding: [batch, length], or one number from which they count.
Result<Expr> places_of_tokens(Node& node, const Dim& length) {
  ATTACCA_TRY(const Value given, node.input(1));
  if (node.rank(given) == 2) return node.expr(given);
  if (!ir::element_count(node.shape(given)).is(1))
    return fail(fmt::format("position_ids of shape {}", ir::to_string(node.shape(given))), {},
                "give [batch, length] or [1]");
  return reshape(cast(node.expr(given), DType::S64), {1, 1}) + counting(node, length, 2, 1);
}

// Places at which a gather from the cache at this input is an error where they are negative, which
// to a gather is from the end.
Expr not_from_the_end(Node& node, const Expr& places, size_t cache) {
  const Expr table = node.x(cache);
  if (!places.value || !table.value || node.rank(*table.value) != 2) return places;
  const Expr outside =
      cast(number_of(node, node.shape(*table.value)[0]), node.dtype(*places.value));
  return where(places < 0.0, outside, places);
}

// One query's view of the keys, as GroupQueryAttention counts them. Keys are where they were in
// the past up to the end of each batch's own, and new ones follow. Queries see `total` places;
// the cache has more where the past is a longer buffer.
struct Cache {
  Dim batch, queries, total, length;
  std::optional<Expr> past;  // the number of each batch's earlier keys, [batch, 1]; none: 0

  // The places of the queries: [batch or 1, queries].
  Expr places(Node& node) const {
    const Expr own = counting(node, queries, 2, 1);
    return past ? own + *past : own;
  }
};

// Inputs: past_key 3, past_value 4, seqlens_k 5, total_sequence_length 6.
Result<Cache> cache_of(Node& node, const Dim& batch, const Dim& queries) {
  Cache cache{batch, queries, queries, queries, std::nullopt};
  ATTACCA_TRY(const auto total, node.dims(6, "total_sequence_length"));
  if (total.size() != 1) return fail("total_sequence_length is one number");
  if (node.has(3) != node.has(4)) return fail("past_key without past_value, or the reverse");
  if (!node.has(3)) return cache;
  ATTACCA_TRY(const Value past, node.input(3));
  if (node.rank(past) != 4)
    return fail(fmt::format("past_key of shape {}", ir::to_string(node.shape(past))), {},
                "give [batch, kv_num_heads, length, size]");
  if (node.shape(past)[2].is(0)) return cache;
  cache.total = total[0];
  cache.length = ir::maximum(node.shape(past)[2], total[0]);
  ATTACCA_TRY(const Value lengths, node.input(5));
  if (!(ir::element_count(node.shape(lengths)) == batch))
    return fail(fmt::format("seqlens_k of shape {}, wanted [{}]",
                            ir::to_string(node.shape(lengths)), ir::to_string(batch)));
  const Expr last = reshape(cast(node.expr(lengths), DType::S64), {batch, 1});
  cache.past = emit(Op::Max, last + 1.0 - number_of(node, queries), 0.0);
  return cache;
}

// Of [batch, heads, past + queries, size], earlier rows and new ones, those of the cache: the
// batch's own earlier ones, the new ones, zeros.
Expr placed(Node& node, const Cache& cache, const Expr& rows) {
  if (!rows.value) return rows;
  const Shape shape = node.shape(*rows.value);
  const Expr at = counting(node, cache.length, 2, 1), from = at - *cache.past;
  const Expr is_new = emit(Op::Ge, from, 0.0);
  const Expr known = from < number_of(node, cache.queries);
  const Expr row = where(is_new, from + number_of(node, shape[2] - cache.queries), at);
  const Expr safe =
      reshape(where(known, row, scalar_like(row, 0.0)), {cache.batch, 1, cache.length});
  const Expr head = counting(node, shape[0] * shape[1], 1, 0) * number_of(node, shape[2]);
  const Expr index = safe + reshape(head, {shape[0], shape[1], 1});
  const Expr flat = reshape(rows, {shape[0] * shape[1] * shape[2], shape[3]});
  const Expr chosen = emit(Op::Gather, std::vector<Expr>{flat, index}, ir::AxisAttrs{0});
  return where(reshape(known, {cache.batch, 1, cache.length, 1}), chosen, scalar_like(chosen, 0.0));
}

// Keys or values behind the past at this input.
Expr present(Node& node, const Cache& cache, size_t past, const Expr& x) {
  return cache.past ? placed(node, cache, concat({node.x(past), x}, 2)) : x;
}

// The places that queries see.
Expr visible(const Cache& cache, const Expr& present) {
  return cache.length == cache.total ? present : slice_axis(present, 2, 0, cache.total);
}

// Keys from the place of a query back, as far as local_window_size= goes.
Expr seen_by_queries(Node& node, const Cache& cache) {
  const Expr key = counting(node, cache.total, 3, 2);
  const Expr places = cache.places(node);
  if (!places.value) return places;
  const Expr query = reshape(places, {node.shape(*places.value)[0], cache.queries, 1});
  Expr seen = emit(Op::Le, std::vector<Expr>{key, query});
  if (const int64_t window = node.integer("local_window_size", -1); window > 0)
    seen = emit(Op::And, std::vector<Expr>{seen, key > query - static_cast<double>(window)});
  return reshape(seen, {node.shape(*places.value)[0], 1, cache.queries, cache.total});
}

// With a further score, of a key whose value is 0: head_sink's for each head, or 0
// (smooth_softmax=). Without one, a row that attention_bias hides as a whole has weights of 0.
Result<Expr> weights_of(Node& node, const Expr& scores) {
  const bool smooth = node.integer("smooth_softmax", 0) > 0;
  if (!smooth && !node.has(11)) {
    const Expr weights = softmax_in(scores, DType::F32);
    if (!node.has(10)) return weights;
    const Expr largest = reduce(Op::ReduceMax, cast(scores, DType::F32), {3}, true);
    const Expr hidden = emit(Op::Le, largest, -largest_of(DType::F32));
    return where(hidden, scalar_like(weights, 0.0), weights);
  }
  ATTACCA_TRY(const Value value, scores.value);
  Shape shape = node.shape(value);
  const Dim keys = shape[3];
  shape[3] = 1;
  Expr sink = scalar_like(scores, 0.0);
  if (node.has(11)) {
    ATTACCA_TRY(const Value given, node.input(11));
    if (!(node.shape(given) == Shape{shape[1]}))
      return fail(fmt::format("head_sink of shape {}", ir::to_string(node.shape(given))), {},
                  "give a number for each head");
    sink = reshape(node.expr(given), {1, shape[1], 1, 1});
  }
  const Expr more = concat({scores, broadcast_to(sink, shape)}, 3);
  return slice_axis(softmax_in(more, DType::F32), 3, 0, keys);
}

// Queries, keys and values of inputs 0, 1 and 2, or of input 0 alone.
Result<Heads> grouped_heads(Node& node) {
  const int64_t own = node.integer("num_heads", 0), shared = node.integer("kv_num_heads", 0);
  if (own < 1 || shared < 1 || own % shared != 0 || own > (1 << 20))
    return fail(fmt::format("num_heads={}, kv_num_heads={}", own, shared), {},
                "the second divides the first");
  ATTACCA_TRY(const Value q, node.input(0));
  if (node.has(1) != node.has(2)) return fail("a key without a value, or the reverse");
  if (node.rank(q) != 3)
    return fail(fmt::format("queries of shape {}", ir::to_string(node.shape(q))), {},
                "give [batch, length, heads * size]");
  Heads heads{node.expr(q), node.x(1), node.x(2)};
  if (!node.has(1)) {
    const Dim whole = node.shape(q)[2];
    const auto size = divide(whole, Dim(own + 2 * shared));
    if (!size)
      return fail(
          fmt::format("{} features are not of {} heads", ir::to_string(whole), own + 2 * shared));
    const Dim keys = *size * Dim(own), values = keys + *size * Dim(shared);
    heads.k = slice_axis(heads.q, 2, keys, values);
    heads.v = slice_axis(heads.q, 2, values, whole);
    heads.q = slice_axis(heads.q, 2, 0, keys);
  }
  for (const auto& [part, count] :
       {std::pair(&heads.q, own), std::pair(&heads.k, shared), std::pair(&heads.v, shared)}) {
    ATTACCA_TRY(const Value value, part->value);
    ATTACCA_TRY(*part, by_head(node, value, count));
  }
  return heads;
}

Status refuse_other_caches(Node& node) {
  for (const auto& [at, what] :
       {std::pair(12, "k_scale"), std::pair(13, "v_scale"), std::pair(14, "q_norm_weight"),
        std::pair(15, "k_norm_weight"), std::pair(16, "query_seqlens")})
    if (node.has(static_cast<size_t>(at)))
      return fail(fmt::format("{} is not supported", what), {},
                  "export with the cache in the model's dtype, and with norms of their own");
  if (node.integer("causal", 1) == 0)
    return fail("causal=0 is not supported", {}, "use MultiHeadAttention");
  return {};
}

}  // namespace

Result<Outputs> rotary_embedding_at_places(Node& node) {
  if (node.integer("is_packed_batching", 0) != 0)
    return fail("is_packed_batching is not supported", {}, "give [batch, length, features]");
  if (node.real("scale", 1.0) != 1.0) return fail("scale is not supported", {}, "scale the caches");
  ATTACCA_TRY(const Value given, node.input(0));
  int64_t heads = node.integer("num_heads", 0);
  if (node.rank(given) == 3 && heads == 0) {
    // The caches are as wide as half a head.
    ATTACCA_TRY(const Value cache, node.input(2));
    const Shape shape = node.shape(cache);
    const auto count = shape.size() != 2 || shape[1].is(0)
                           ? std::nullopt
                           : divide(node.shape(given)[2], shape[1] * Dim(2));
    heads = count ? count->maybe_value().value_or(0) : 0;
  }
  ATTACCA_TRY(const Expr x, by_head(node, given, heads));
  ATTACCA_TRY(const Value value, x.value);
  ATTACCA_TRY(const Expr places, places_of_tokens(node, node.shape(value)[2]));
  ATTACCA_TRY(const Expr y, rotated_at(node, x, 2, not_from_the_end(node, places, 2),
                                       node.integer("interleaved", 0) != 0));
  ATTACCA_TRY(const Expr same, of_shape(node, y, node.shape(value), "position_ids"));
  return node.rank(given) == 3 ? joined_heads(node, same) : same;
}

// A past that is longer than total_sequence_length is a buffer, and so are the caches returned.
Result<Outputs> group_query_attention(Node& node) {
  ATTACCA_TRY_VOID(refuse_other_caches(node));
  ATTACCA_TRY(Heads heads, grouped_heads(node));
  ATTACCA_TRY(const Value q, heads.q.value);
  const Shape shape = node.shape(q);
  ATTACCA_TRY(const Cache cache, cache_of(node, shape[0], shape[2]));
  if (node.integer("do_rotary", 0) != 0) {
    const Expr places = node.has(9) ? not_from_the_end(node, node.x(9), 7) : cache.places(node);
    const bool interleaved = node.integer("rotary_interleaved", 0) != 0;
    ATTACCA_TRY(heads.q, rotated_at(node, heads.q, 7, places, interleaved));
    ATTACCA_TRY(heads.k, rotated_at(node, heads.k, 7, places, interleaved));
  }
  ATTACCA_TRY(const Value k, present(node, cache, 3, heads.k).value);
  ATTACCA_TRY(const Value v, present(node, cache, 4, heads.v).value);
  heads.k = visible(cache, node.expr(k));
  heads.v = visible(cache, node.expr(v));
  double scale = node.real("scale", 0.0);
  if (scale == 0) {
    ATTACCA_TRY(scale, default_scale(node, heads));
  }
  ATTACCA_TRY(Expr scores, scores_of(node, heads, scale));
  ATTACCA_TRY(const Value plain, scores.value);
  scores = capped(scores, node.real("softcap", 0.0));
  if (node.has(10)) {
    node.broadcasts({scores, node.x(10)});
    ATTACCA_TRY(scores, of_shape(node, scores + node.x(10), node.shape(plain), "attention_bias"));
  }
  ATTACCA_TRY(const Expr weights,
              weights_of(node, where_seen(node, seen_by_queries(node, cache), scores)));
  ATTACCA_TRY(const Value y, joined_heads(node, weighted_values(node, weights, heads)).value);
  return std::vector<Value>{y, k, v};
}

}  // namespace attacca::import
