#include "fuse/obstacles.hpp"

#include "fmt/format.h"

namespace attacca::fuse {

using ir::DType;
using ir::Op;

namespace {

bool is_wide(DType dtype) {
  return dtype == DType::F64 || dtype == DType::S64;
}

}  // namespace

std::string dtype_obstacle(const ir::Graph& graph, ir::Value value) {
  const ir::Node& node = graph[value];
  const auto reason = [&](DType dtype) {
    return fmt::format("{} arithmetic is done op by op", name(dtype));
  };
  if (is_wide(node.type.dtype)) return reason(node.type.dtype);
  if (node.compute() && is_wide(*node.compute())) return reason(*node.compute());
  for (const ir::Value operand : node.operands)
    if (!graph[operand].literal && is_wide(graph.type(operand).dtype))
      return reason(graph.type(operand).dtype);
  return {};
}

std::string structural_reason(const ir::Graph& graph, ir::Value value) {
  const ir::Node& node = graph[value];
  const std::string op(name(node.op));
  switch (node.op) {
    case Op::MatMul:
    case Op::GroupedMatMul:
      return "a matrix product starts a region of its own";
    case Op::Kernel:
      return "a user's kernel reads its operands from memory";
    case Op::Gather:
      return "gather reads elements at places known only at run time";
    case Op::MxFp4:
      return "no kernel here widens these mxfp4 weights on their way to their product";
    case Op::Decode:
      return "no kernel here decodes these weights on their way to their product";
    case Op::ScatterAdd:
      return "scatter_add adds elements at places known only at run time";
    case Op::Scatter:
      return "scatter writes elements at places known only at run time";
    case Op::Concat:
      return "concat writes into a part of a larger tensor";
    case Op::Transpose:
    case Op::Permute:
      return op +
             " moves elements to other places; its readers absorb it as strides where they can";
    case Op::Slice:
      return "slice keeps only some elements; its readers absorb it as strides where they can";
    case Op::Broadcast:
      return "broadcast repeats elements; its readers absorb it as strides where they can";
    case Op::Reshape:
      return "reshape needs a copy here: no strides express it";
    default:
      break;
  }
  if (ir::is_reduction(node.op)) return op + " needs many elements for one";
  return op + " is done on its own";
}

std::string gemm_obstacle(const ir::Graph& graph, ir::Value matmul) {
  const ir::Node& node = graph[matmul];
  const DType a = graph.type(node.operands[0]).dtype, b = graph.type(node.operands[1]).dtype;
  if (ir::is_integer(a) && !(ir::is_byte(a) && ir::is_byte(b)))
    return fmt::format("products of {} with {} are done op by op", name(a), name(b));
  return {};
}

}  // namespace attacca::fuse
