// The ops, generated from ir/graph/ops.def.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace attacca::ir {

enum class Op : uint8_t {
#define STRUCTURAL(NAME, ...) NAME,
#define REDUCTION(NAME, ...) NAME,
#define ELEMENTWISE(NAME, ...) NAME,
#include "ir/graph/ops.def"
};

enum class OpKind : uint8_t { Structural, Reduction, Elementwise };
enum class TypeRule : uint8_t { Any, Float, Compare, Logic, Where };
// Which of the structs of ir/graph/attrs.hpp holds an op's attributes.
enum class Attributes : uint8_t {
  None,
  MatMul,
  Permute,
  Shape,
  Slice,
  Axis,
  Cast,
  Kernel,
  Unpack,
  Blocks,
  Decode,
  Reduction,
  Elementwise
};

struct Param {
  std::string_view name;
  double default_value;
};

struct OpInfo {
  Op op;
  std::string_view name;
  OpKind kind;
  int min_arity, max_arity;
  bool commutative;
  int cost;
  TypeRule rule;  // Elementwise
  Attributes attributes;
  std::span<const Param> params;  // Elementwise
  std::string_view reference;     // Elementwise: C++ over T x, y, z and double p, q, r
  std::string_view emitted;       // Elementwise: CUDA C++ over x, y, z and p, q, r
};

const OpInfo& info(Op op);
inline std::string_view name(Op op) {
  return info(op).name;
}
inline bool is_elementwise(Op op) {
  return info(op).kind == OpKind::Elementwise;
}
inline bool is_reduction(Op op) {
  return info(op).kind == OpKind::Reduction;
}
std::optional<Op> parse_op(std::string_view name);
// All ops, in table order.
std::span<const OpInfo> all_ops();

// The reference value of an elementwise op: operands x, y, z (those it has), parameters p, q, r.
// The integer form serves every integer dtype and bool.
double evaluate(Op op, std::span<const double> operands, std::span<const double> params);
int64_t evaluate(Op op, std::span<const int64_t> operands, std::span<const double> params);

}  // namespace attacca::ir
