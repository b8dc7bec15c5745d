// Attention and rotary embedding as graphs, for the readers of ai.onnx and com.microsoft.
#pragma once

#include "import/onnx/node.hpp"

namespace attacca::import {

// [batch, length, heads * size] as [batch, heads, length, size]; of rank 4 it is so already.
Result<Expr> by_head(Node& node, ir::Value x, int64_t heads);
// The reverse.
Expr joined_heads(Node& node, const Expr& x);

// Queries, keys and values as [batch, heads, length, size]. A head of keys and values may serve
// several of queries.
struct Heads {
  Expr q, k, v;
};
// 1 / sqrt(size). Error: the size of a head is a symbol.
Result<double> default_scale(Node& node, const Heads& heads);
// q @ transpose(k) * scale: [batch, heads, queries, keys].
Result<Expr> scores_of(Node& node, const Heads& heads, double scale);
// The scores where the condition holds, else minus infinity.
Expr where_seen(Node& node, const Expr& seen, const Expr& scores);
// Whether a query, counted from `first`, does not precede the key: [queries, keys].
Expr causally_seen(Node& node, const ir::Shape& scores, const Expr& first);
Expr capped(const Expr& scores, double cap);
// Along the last axis, computed in `precise`.
Expr softmax_in(const Expr& x, ir::DType precise);
// weights @ v.
Expr weighted_values(Node& node, const Expr& weights, const Heads& heads);

// The first `width` features of x, [batch, heads, length, size], are pairs, (i, i + width / 2) or,
// interleaved, (2i, 2i + 1): turns each by the angle whose cosine and sine these are, of shape
// [batch or 1, 1, length, width / 2].
struct Rotation {
  Expr cosine, sine;
  int64_t width;
  bool interleaved;
};
Expr rotated(Node& node, const Expr& x, const Rotation& by);

}  // namespace attacca::import
