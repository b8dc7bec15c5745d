// onnxruntime's attentions over hidden states or heads: what a mask hides gets
// mask_filter_value= added to its score.
#include "import/onnx/products/attention.hpp"

#include "fmt/format.h"

#include "import/onnx/microsoft/quantized.hpp"
#include "import/onnx/ops.hpp"
#include "import/onnx/products/linear.hpp"

namespace attacca::import {
namespace {

using ir::Dim;
using ir::DType;
using ir::Op;
using ir::Shape;
using ir::Value;

// Whether the mask lets keys count: [batch or 1, 1, queries or 1, keys]. Of one axis, it has the
// end of each batch's keys, and then perhaps the beginnings.
Result<Expr> mask_at(Node& node, size_t at, const Shape& scores) {
  ATTACCA_TRY(const Value mask, node.input(at));
  const Shape shape = node.shape(mask);
  const Dim &batch = scores[0], &keys = scores[3];
  const auto part = [&](const Dim& begin) {
    const Expr each = slice_axis(cast(node.expr(mask), DType::S64), 0, begin, begin + batch);
    return reshape(each, {batch, 1, 1, 1});
  };
  if (shape.size() == 1 && (shape[0] == batch || shape[0] == batch * 2)) {
    const Expr key = counting(node, keys, 4, 3);
    const Expr before_end = key < part(0);
    if (shape[0] == batch) return before_end;
    return emit(Op::And,
                std::vector<Expr>{before_end, emit(Op::Ge, std::vector<Expr>{key, part(batch)})});
  }
  const Expr counts = node.expr(mask) > 0.0;
  if (shape.size() == 2) return reshape(counts, {shape[0], 1, 1, shape[1]});
  if (shape.size() == 3) return reshape(counts, {shape[0], 1, shape[1], shape[2]});
  return fail(fmt::format("a mask of shape {} for scores of shape {}", ir::to_string(shape),
                          ir::to_string(scores)),
              {}, "give [batch], [2 * batch], [batch, keys] or [batch, queries, keys]");
}

// The result for queries, keys and values, as [batch, queries, heads * size].
Result<Value> attended(Node& node, const Heads& heads, size_t mask, size_t bias) {
  double scale = node.real("scale", 0.0);
  if (scale == 0) {
    ATTACCA_TRY(scale, default_scale(node, heads));
  }
  ATTACCA_TRY(Expr scores, scores_of(node, heads, scale));
  ATTACCA_TRY(const Value plain, scores.value);
  const Shape shape = node.shape(plain);
  if (node.has(mask)) {
    ATTACCA_TRY(const Expr counts, mask_at(node, mask, shape));
    node.broadcasts({scores, counts});
    const double hidden = node.real("mask_filter_value", -10000.0);
    const Expr added = where(counts, scalar_like(scores, 0.0), scalar_like(scores, hidden));
    ATTACCA_TRY(scores, of_shape(node, scores + added, shape, "the mask"));
  }
  if (node.has(bias)) {
    node.broadcasts({scores, node.x(bias)});
    ATTACCA_TRY(scores, of_shape(node, scores + node.x(bias), shape, "attention_bias"));
  }
  if (node.integer("unidirectional", 0) != 0) {
    // The lowest number, as in ONNX Runtime: where a mask hides all that a query may see by minus
    // infinity, later keys count, and no result is NaN.
    const Expr hidden = scalar_like(scores, -largest_of(node.dtype(plain)));
    scores =
        where(causally_seen(node, shape, number_of(node, shape[3] - shape[2])), scores, hidden);
  }
  return joined_heads(node, weighted_values(node, softmax_in(scores, DType::F32), heads)).value;
}

struct Parts {
  Value q, k, v;  // [batch, length, features]
};

// The parts of x @ weights, along its last axis.
Result<Parts> parts_of(Node& node, const Expr& joined) {
  ATTACCA_TRY(const Value value, joined.value);
  const Shape shape = node.shape(value);
  if (shape.size() != 3)
    return fail(fmt::format("queries, keys and values of shape {}", ir::to_string(shape)), {},
                "give an input of [batch, length, features]");
  std::vector<Dim> sizes;
  if (const auto listed = node.integer_list("qkv_hidden_sizes")) {
    sizes.assign(listed->begin(), listed->end());
  } else if (const auto third = divide(shape[2], Dim(3))) {
    sizes.assign(3, *third);
  }
  if (sizes.size() != 3 || !(sizes[0] + sizes[1] + sizes[2] == shape[2]))
    return fail(
        fmt::format("{} features are not queries, keys and values", ir::to_string(shape[2])), {},
        "give qkv_hidden_sizes=, or as many of each");
  Parts parts;
  ATTACCA_TRY(parts.q, slice_axis(joined, 2, 0, sizes[0]).value);
  ATTACCA_TRY(parts.k, slice_axis(joined, 2, sizes[0], sizes[0] + sizes[1]).value);
  ATTACCA_TRY(parts.v, slice_axis(joined, 2, sizes[0] + sizes[1], shape[2]).value);
  return parts;
}

Result<Heads> heads_of_parts(Node& node, const Parts& parts) {
  const int64_t count = node.integer("num_heads", 0);
  ATTACCA_TRY(const Expr q, by_head(node, parts.q, count));
  ATTACCA_TRY(const Expr k, by_head(node, parts.k, count));
  ATTACCA_TRY(const Expr v, by_head(node, parts.v, count));
  return Heads{q, k, v};
}

// past and present hold keys and values in one tensor: [2, batch, heads, length, size].
struct JointInputs {
  size_t mask, past, bias;
};

Result<Outputs> attention_of(Node& node, const Expr& joined, const JointInputs& at) {
  if (node.integer("do_rotary", 0) != 0)
    return fail("do_rotary is not supported", {}, "use RotaryEmbedding");
  if (node.integer("past_present_share_buffer", 0) != 0)
    return fail("past_present_share_buffer is not supported", {}, "leave it at 0");
  ATTACCA_TRY(const Parts parts, parts_of(node, joined));
  ATTACCA_TRY(Heads heads, heads_of_parts(node, parts));
  if (node.has(at.past)) {
    ATTACCA_TRY(const Value past, node.input(at.past));
    const Shape shape = node.shape(past);
    if (shape.size() != 5 || !shape[0].is(2))
      return fail(fmt::format("a past of shape {}", ir::to_string(shape)), {},
                  "give [2, batch, heads, length, size]");
    const Shape one(shape.begin() + 1, shape.end());
    const auto half = [&](int64_t i) {
      return reshape(slice_axis(node.expr(past), 0, i, i + 1), one);
    };
    heads.k = concat({half(0), heads.k}, 2);
    heads.v = concat({half(1), heads.v}, 2);
  }
  ATTACCA_TRY(const Value y, attended(node, heads, at.mask, at.bias));
  if (!node.wants(1)) return y;
  ATTACCA_TRY(const Value k, heads.k.value);
  Shape one = node.shape(k);
  one.insert(one.begin(), 1);
  ATTACCA_TRY(const Value present, concat({reshape(heads.k, one), reshape(heads.v, one)}, 0).value);
  return std::vector<Value>{y, present};
}

constexpr size_t kNone = 1000;  // no input

}  // namespace

Result<Outputs> attention_of_states(Node& node) {
  if (node.has(6)) return fail("past_sequence_length is not supported", {}, "leave it out");
  const Expr product = numpy_matmul(node, node.x(0), node.x(1));
  return attention_of(node, node.has(2) ? product + node.x(2) : product, {3, 4, 5});
}

Result<Outputs> q_attention(Node& node) {
  ATTACCA_TRY(
      const Expr joined,
      scaled_product(
          node, {.a = 0, .b = 1, .scale_a = 3, .scale_b = 4, .zero_a = 6, .zero_b = 7, .bias = 2}));
  return attention_of(node, joined, {5, 8, kNone});
}

// The bias is of queries, keys and values, one after the other.
Result<Outputs> multi_head_attention(Node& node) {
  for (const size_t at : {8, 9})
    if (node.has(at))
      return fail(fmt::format("input {}, of a shared buffer, is not supported", at), {},
                  "export without past_present_share_buffer");
  if (!node.has(1) || !node.has(2))
    return fail("packed queries, keys and values are not supported", {}, "give three inputs");
  Parts parts{};
  ATTACCA_TRY(parts.q, node.input(0));
  ATTACCA_TRY(parts.k, node.input(1));
  ATTACCA_TRY(parts.v, node.input(2));
  if (node.has(3)) {
    Dim begin = 0;
    for (Value* part : {&parts.q, &parts.k, &parts.v}) {
      if (node.rank(*part) != 3)
        return fail("a bias of keys or values by head is not supported", {},
                    "give them as [batch, length, features]");
      const Dim end = begin + node.shape(*part)[2];
      ATTACCA_TRY(*part, (node.expr(*part) + slice_axis(node.x(3), 0, begin, end)).value);
      begin = end;
    }
  }
  ATTACCA_TRY(Heads heads, heads_of_parts(node, parts));
  ATTACCA_TRY(const Value keys, heads.k.value);
  const Dim queries = node.shape(parts.q)[1], length = node.shape(keys)[2];
  // ONNX Runtime 1.32 counts from the first key there, but shows the last query all keys.
  if (node.integer("unidirectional", 0) != 0 && !(queries == length))
    return fail(fmt::format("unidirectional attention of {} queries to {} new keys",
                            ir::to_string(queries), ir::to_string(length)),
                {}, "give as many keys as queries, or a mask in place of unidirectional=1");
  if (node.has(6) != node.has(7)) return fail("past_key without past_value, or the reverse");
  if (node.has(6)) {
    heads.k = concat({node.x(6), heads.k}, 2);
    heads.v = concat({node.x(7), heads.v}, 2);
  }
  ATTACCA_TRY(const Value y, attended(node, heads, 4, 5));
  ATTACCA_TRY(const Value k, heads.k.value);
  ATTACCA_TRY(const Value v, heads.v.value);
  return std::vector<Value>{y, k, v};
}

}  // namespace attacca::import
