#include "epilogue/tolerance.hpp"

namespace attacca::epilogue {
namespace {

using ir::DType;
using ir::Op;

bool is_narrow(DType dtype) {
  return ir::is_float(dtype) && ir::info(dtype).bits <= 16;
}

// Whether a small relative error of operand k gives the result no larger a relative error.
bool keeps_relative_error(const Node& node, size_t k) {
  switch (node.op) {
    case Op::Mul:
    case Op::Div:
    case Op::Neg:
    case Op::Abs:
    case Op::Reciprocal:
    case Op::Sqrt:
    case Op::Rsqrt:
    case Op::Relu:
      return true;
    case Op::Where:
      return k > 0;
    case Op::SwiGlu:
    case Op::GeGlu:
    case Op::GeGluTanh:
    case Op::ReGlu:
      return k == 1;
    case Op::Cast:
      return ir::is_float(node.dtype) && !node.saturate;
    default:
      return false;
  }
}

}  // namespace

std::vector<bool> tolerant_values(const Epilogue& epilogue) {
  const size_t inputs = epilogue.inputs.size();
  std::vector<bool> tolerant(inputs + epilogue.nodes.size(), true);
  for (const Output& output : epilogue.outputs)
    if (!is_narrow(output.dtype)) tolerant[static_cast<size_t>(output.value)] = false;
  for (size_t i = epilogue.nodes.size(); i-- > 0;) {
    const Node& node = epilogue.nodes[i];
    const bool fine = tolerant[inputs + i] || is_narrow(node.dtype);
    for (size_t k = 0; k < node.operands.size(); ++k)
      if (!fine || !keeps_relative_error(node, k))
        tolerant[static_cast<size_t>(node.operands[k])] = false;
  }
  for (size_t i = 0; i < epilogue.nodes.size(); ++i)
    if (is_narrow(epilogue.nodes[i].dtype) && !epilogue.nodes[i].compute)
      tolerant[inputs + i] = true;
  return tolerant;
}

}  // namespace attacca::epilogue
