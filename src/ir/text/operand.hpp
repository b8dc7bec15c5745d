// The result of an expression while the text form is parsed: a value of the graph, or a number,
// which takes its dtype from its neighbour later.
#pragma once

#include <optional>
#include <variant>
#include <vector>

#include "ir/graph/graph.hpp"
#include "ir/text/lexer.hpp"
#include "ir/text/rules.hpp"

namespace attacca::ir {

struct Number {
  double value = 0;
  NumberKind kind = NumberKind::Integer;
  bool exact = true;  // false: an integer that no f64 holds
};

struct Operand {
  std::variant<Value, Number> of;
  size_t offset = 0;

  const Value* value() const { return std::get_if<Value>(&of); }
  const Number* number() const { return std::get_if<Number>(&of); }
};

// The number as a literal of the dtype. Errors: the dtype has no such value.
Result<Value> literal(Graph& graph, const SourceText& source, size_t offset, const Number& number,
                      DType dtype);
// The operand as a value; a number takes the dtype of number_dtype(kind, peer).
Result<Value> materialise(Graph& graph, const SourceText& source, const Operand& operand,
                          std::optional<DType> peer = {});
// Adds op(operands) to the graph; numbers take their dtypes from their neighbours.
Result<Value> add_node(Graph& graph, const SourceText& source, size_t offset, Op op,
                       const std::vector<Operand>& operands, Attrs attrs = {});

}  // namespace attacca::ir
