// A call of the text form, parsed but not yet typed, and its lowering into nodes.
#pragma once

#include <optional>
#include <string_view>
#include <variant>
#include <vector>

#include "ir/graph.hpp"
#include "ir/lexer.hpp"
#include "ir/text_rules.hpp"

namespace attacca::ir {

// A number that waits for its neighbour's dtype.
struct Number {
  double value = 0;
  NumberKind kind = NumberKind::Integer;
  bool exact = true;  // false: an integer that no f64 holds
};

// Either a value of the graph or a number that is not in it yet.
struct Operand {
  std::variant<Value, Number> of;
  size_t offset = 0;

  const Value* value() const { return std::get_if<Value>(&of); }
  const Number* number() const { return std::get_if<Number>(&of); }
};

struct Argument {
  std::string_view keyword;  // empty: positional
  std::variant<Operand, DType, std::vector<Dim>> of;
  size_t offset = 0;
};

struct Call {
  std::string_view name;
  size_t offset = 0;
  std::vector<Argument> arguments;
};

// Adds op(operands) to the graph; numbers take their dtypes from their neighbours.
Result<Value> add_node(Graph& graph, const SourceText& source, size_t offset, Op op,
                       const std::vector<Operand>& operands, Attrs attrs = {});
// The operand as a value; a number takes the dtype of number_dtype(kind, peer).
Result<Value> materialise(Graph& graph, const SourceText& source, const Operand& operand,
                          std::optional<DType> peer = {});
// An error where the number is no value of the dtype.
Status check_fits(const SourceText& source, size_t offset, const Number& number, DType dtype);

// The results of a call of a table op or a composition (ir/compose.hpp); only split has several.
Result<std::vector<Value>> lower_call(Graph& graph, const SourceText& source, const Call& call);
// How the message of an unknown name goes on, e.g. "did you mean sigmoid?"
std::string suggest_op(std::string_view name);
bool is_op_name(std::string_view name);

}  // namespace attacca::ir
