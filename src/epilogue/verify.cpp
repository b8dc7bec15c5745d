#include <algorithm>

#include "fmt/format.h"

#include "epilogue/epilogue.hpp"

namespace attacca::epilogue {
namespace {

using ir::Op;

Status verify_input(const Epilogue& epilogue, const Input& input, const std::string& where) {
  if (input.role == Role::Accumulator) {
    if (input.gemm < 0) return fail("an accumulator of no product", where);
    if (input.column_step < 1) return fail("a column step below 1", where);
    const auto dtype = input.dtype;
    // A value that a user's kernel stores may have any dtype, and is rounded to it.
    const bool is_stored = dtype == input.rounded;
    if (dtype != ir::DType::F32 && dtype != ir::DType::S32 && dtype != ir::DType::F64 && !is_stored)
      return fail(fmt::format("an accumulator of {}", name(dtype)), where);
    return {};
  }
  if (input.access.strides.size() != epilogue.domain.size())
    return fail(fmt::format("{} strides over a domain of rank {}", input.access.strides.size(),
                            epilogue.domain.size()),
                where);
  if (!fits(input.role, input.access.strides))
    return fail(fmt::format("strides {} are not those of role {}",
                            to_string(ir::Shape(input.access.strides)), name(input.role)),
                where);
  if (input.rows && (epilogue.domain.size() != 2 || input.rows->access.strides.size() != 1))
    return fail("an index names rows of matrices alone", where);
  if (!input.group_stride) return {};
  const bool alike = input.role == Role::Row || input.role == Role::Scalar;
  if (!alike || input.rows || epilogue.domain.size() != 2)
    return fail("a row for each group that is no row of a matrix", where);
  return {};
}

Status verify_node(const Epilogue& epilogue, size_t index, const std::string& where) {
  const Node& node = epilogue.nodes[index];
  const bool foreign = node.op == Op::Input && !node.function.empty();
  if (!foreign && node.op != Op::Cast && node.op != Op::Constant && !ir::is_elementwise(node.op))
    return fail(fmt::format("{} is no elementwise op", name(node.op)), where);
  const ir::OpInfo& info = ir::info(node.op);
  const auto arity = static_cast<int>(node.operands.size());
  if (!foreign && (arity < info.min_arity || arity > info.max_arity))
    return fail(fmt::format("{} with {} operands", info.name, arity), where);
  if (node.params.size() != info.params.size())
    return fail(fmt::format("{} with {} parameters", info.name, node.params.size()), where);
  const auto before = static_cast<int>(epilogue.inputs.size() + index);
  for (const int operand : node.operands)
    if (operand < 0 || operand >= before)
      return fail(fmt::format("operand {} does not precede the node", operand), where);
  return {};
}

Status verify_output(const Epilogue& epilogue, const Output& output, const std::string& where) {
  const size_t rank = epilogue.domain.size();
  const auto values = static_cast<int>(epilogue.inputs.size() + epilogue.nodes.size());
  if (output.value < 0 || output.value >= values) return fail("an output of no value", where);
  const auto& strides = output.access.strides;
  if (strides.size() != rank)
    return fail(fmt::format("{} strides over a domain of rank {}", strides.size(), rank), where);
  if (output.kind == OutputKind::Store) return {};
  if (output.kind == OutputKind::ScatterAdd) {
    const bool whole = output.rows && output.base_access.strides.size() == 2 && rank == 2;
    return whole ? Status() : fail("rows that are added without an index", where);
  }
  if (!ir::is_reduction(output.reduction))
    return fail(fmt::format("{} is no reduction", name(output.reduction)), where);
  const bool batch = output.kind == OutputKind::BatchReduce;
  const bool rows = output.kind != OutputKind::RowReduce && !batch;  // reduces rows away
  const bool columns = output.kind != OutputKind::ColumnReduce && !batch;
  if ((columns && !strides[rank - 1].is(0)) || (rows && !strides[rank - 2].is(0)))
    return fail("a reduced axis with a stride", where);
  return {};
}

}  // namespace

std::vector<size_t> indexed_inputs(const Epilogue& epilogue) {
  std::vector<size_t> indexed;
  for (size_t i = 0; i < epilogue.inputs.size(); ++i)
    if (epilogue.inputs[i].rows) indexed.push_back(i);
  return indexed;
}

bool reads_by_group(const Epilogue& epilogue) {
  return std::any_of(epilogue.inputs.begin(), epilogue.inputs.end(),
                     [](const Input& input) { return input.group_stride.has_value(); });
}

bool fits(Role role, const std::vector<ir::Dim>& strides) {
  const bool rows = !strides[strides.size() - 2].is(0), columns = !strides.back().is(0);
  switch (role) {
    case Role::Accumulator:
    case Role::Full:
      return rows && columns;
    case Role::Row:
      return !rows && columns;
    case Role::Column:
      return rows && !columns;
    case Role::Scalar:
      return !rows && !columns;
  }
  return false;
}

Status verify(const Epilogue& epilogue) {
  if (epilogue.domain.size() < 2) return fail("a domain of rank below 2", "domain");
  if (epilogue.outputs.empty()) return fail("an epilogue without outputs", "outputs");
  for (size_t i = 0; i < epilogue.inputs.size(); ++i)
    ATTACCA_TRY_VOID(verify_input(epilogue, epilogue.inputs[i], fmt::format("input {}", i)));
  for (size_t i = 0; i < epilogue.nodes.size(); ++i)
    ATTACCA_TRY_VOID(verify_node(epilogue, i, fmt::format("node {}", i)));
  for (size_t i = 0; i < epilogue.outputs.size(); ++i)
    ATTACCA_TRY_VOID(verify_output(epilogue, epilogue.outputs[i], fmt::format("output {}", i)));
  return {};
}

}  // namespace attacca::epilogue
