#include "ir/text/operand.hpp"

#include <cmath>

#include "fmt/format.h"

namespace attacca::ir {
namespace {

Status check_fits(const SourceText& source, size_t offset, const Number& number, DType dtype) {
  if (is_float(dtype)) return {};
  if (!number.exact)
    return source.fail(offset, "the integer is too large to be held exactly",
                       "write constant(s64[], [...])");
  const bool integral =
      number.value == std::trunc(number.value) && number.value >= -0x1p63 && number.value < 0x1p63;
  const auto integer = integral ? static_cast<int64_t>(number.value) : 0;
  if (integral && to_integer(dtype, integer, Overflow::Ieee) == integer) return {};
  return source.fail(offset, fmt::format("{} is no value of {}", number.value, name(dtype)),
                     fmt::format("cast the operand, or write constant({}, f32)", number.value));
}

}  // namespace

// Integers have no -0.
Result<Value> literal(Graph& graph, const SourceText& source, size_t offset, const Number& number,
                      DType dtype) {
  ATTACCA_TRY_VOID(check_fits(source, offset, number, dtype));
  return graph.literal(is_float(dtype) || number.value != 0 ? number.value : 0.0, dtype);
}

Result<Value> materialise(Graph& graph, const SourceText& source, const Operand& operand,
                          std::optional<DType> peer) {
  if (operand.value()) return *operand.value();
  const DType dtype = number_dtype(operand.number()->kind, peer);
  return literal(graph, source, operand.offset, *operand.number(), dtype);
}

Result<Value> add_node(Graph& graph, const SourceText& source, size_t offset, Op op,
                       const std::vector<Operand>& operands, Attrs attrs) {
  std::vector<Value> values;
  for (size_t i = 0; i < operands.size(); ++i) {
    if (operands[i].value()) {
      values.push_back(*operands[i].value());
      continue;
    }
    std::optional<DType> peer;
    const OperandRange range = adapting_operands(op, i, operands.size());
    for (size_t j = range.first; j < range.last && !peer; ++j)
      if (operands[j].value()) peer = graph.type(*operands[j].value()).dtype;
    const Number& number = *operands[i].number();
    const DType dtype = number_dtype(op, i, number.kind, peer);
    ATTACCA_TRY(const Value value, literal(graph, source, operands[i].offset, number, dtype));
    values.push_back(value);
  }
  auto value = graph.add(op, std::move(values), std::move(attrs));
  if (!value) return source.place(offset, std::move(value).error());
  return *value;
}

}  // namespace attacca::ir
