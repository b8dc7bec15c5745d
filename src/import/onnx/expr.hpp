// Builds graphs by operators: an Expr is a value, or the first error of the ops that make it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ir/graph/graph.hpp"
#include "ir/text/compose.hpp"

namespace attacca::import {

// An integer or bool tensor of rank 0 or 1 whose elements are known while importing, possibly as
// symbols: results of Shape and of shape arithmetic.
struct Known {
  ir::DType dtype = ir::DType::S64;
  std::vector<ir::Dim> elements;
  bool scalar = false;  // rank 0
};

// int16 or uint16 by its ends. The graph has no such dtype: it holds the numbers as f32 or s32,
// from QuantizeLinear or an initializer to DequantizeLinear.
struct SixteenBits {
  double low = 0, high = 0;
  friend bool operator==(const SixteenBits&, const SixteenBits&) = default;
};

// The meaning of a name: a value of the graph, numbers known while importing, or both.
struct Entry {
  Entry() = default;
  Entry(ir::Value v) : value(v) {}         // NOLINT: a value is an entry
  Entry(Known k) : known(std::move(k)) {}  // NOLINT
  std::optional<ir::Value> value;
  std::optional<Known> known;
  std::optional<SixteenBits> sixteen_bits = {};  // of a value
  // int4 as s8 or uint4 as u8: an initializer, for DequantizeLinear alone.
  bool four_bits = false;
};

// The results of a node, in order.
struct Outputs {
  Outputs() = default;
  Outputs(ir::Value value) : entries{Entry(value)} {}                        // NOLINT: one result
  Outputs(Known known) : entries{Entry(std::move(known))} {}                 // NOLINT
  Outputs(std::vector<Entry> e) : entries(std::move(e)) {}                   // NOLINT
  Outputs(const std::vector<ir::Value>& v) : entries(v.begin(), v.end()) {}  // NOLINT
  std::vector<Entry> entries;
};

struct Expr {
  ir::Graph* graph;
  Result<ir::Value> value;
  operator Result<Outputs>() const { return value; }  // NOLINT
};

Expr emit(ir::Op op, const std::vector<Expr>& operands, ir::Attrs attrs = {});
inline Expr emit(ir::Op op, const Expr& x) {
  return emit(op, std::vector<Expr>{x});
}
// With the op's parameters, in table order.
inline Expr emit_with(ir::Op op, const Expr& x, std::vector<double> params) {
  return emit(op, std::vector<Expr>{x}, ir::ElementwiseAttrs{std::move(params), {}});
}
Expr emit(ir::Op op, const Expr& x, double y);
Expr emit(ir::Op op, double x, const Expr& y);

#define ATTACCA_EXPR_BINARY(SYMBOL, OP)                       \
  inline Expr operator SYMBOL(const Expr& x, const Expr& y) { \
    return emit(ir::Op::OP, std::vector<Expr>{x, y});         \
  }                                                           \
  inline Expr operator SYMBOL(const Expr& x, double y) {      \
    return emit(ir::Op::OP, x, y);                            \
  }                                                           \
  inline Expr operator SYMBOL(double x, const Expr& y) {      \
    return emit(ir::Op::OP, x, y);                            \
  }
ATTACCA_EXPR_BINARY(+, Add)
ATTACCA_EXPR_BINARY(-, Sub)
ATTACCA_EXPR_BINARY(*, Mul)
ATTACCA_EXPR_BINARY(/, Div)
ATTACCA_EXPR_BINARY(<, Lt)
ATTACCA_EXPR_BINARY(>, Gt)
#undef ATTACCA_EXPR_BINARY
inline Expr operator-(const Expr& x) {
  return emit(ir::Op::Neg, x);
}

// A number of x's dtype.
Expr scalar_like(const Expr& x, double value);
Expr where(const Expr& condition, const Expr& x, const Expr& y);
Expr cast(const Expr& x, ir::DType dtype, bool saturate = false);
Expr reduce(ir::Op op, const Expr& x, std::vector<int64_t> axes, bool keepdims);
Expr matmul(const Expr& a, const Expr& b);
Expr reshape(const Expr& x, ir::Shape shape);
Expr broadcast_to(const Expr& x, ir::Shape shape);
// The permutation as the simplest op: none, transpose or permute.
Expr permute(const Expr& x, const std::vector<int64_t>& axes);
// Elements begin..end of an axis; an error where x has no such axis.
Expr slice_axis(const Expr& x, int64_t axis, ir::Dim begin, ir::Dim end, int64_t step = 1);
// begin, begin + 1, ... end - 1 as s64.
Expr emit_range(ir::Graph& graph, const ir::Dim& begin, const ir::Dim& end);
Expr concat(const std::vector<Expr>& parts, int64_t axis);

}  // namespace attacca::import
