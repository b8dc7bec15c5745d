#include "launch/vendor_epilogue.hpp"

#include <algorithm>

namespace attacca::launch {
namespace {

using epilogue::Epilogue;
using epilogue::Input;
using epilogue::Node;
using epilogue::Role;

bool computes_in_f32(const Node& node) {
  return node.function.empty() && node.compute.value_or(ir::DType::F32) == ir::DType::F32;
}

// The node that reads a value, if it is the only one; else none.
std::optional<size_t> only_reader(const Epilogue& epilogue, int value) {
  std::optional<size_t> reader;
  int uses = 0;
  for (size_t i = 0; i < epilogue.nodes.size(); ++i) {
    const auto& operands = epilogue.nodes[i].operands;
    const auto count = std::count(operands.begin(), operands.end(), value);
    if (count > 0) reader = i;
    uses += static_cast<int>(count);
  }
  for (const epilogue::Output& output : epilogue.outputs) uses += output.value == value;
  return uses == 1 ? reader : std::nullopt;
}

// Whether the library can store the product in the dtype of a bias.
bool stores_as(const problem::Problem& problem, ir::DType bias) {
  const ir::DType stored = problem.products[0].stored;
  return bias == stored || (stored == ir::DType::F32 && ir::is_half(bias) &&
                            bias == problem.views.products[0].a.dtype);
}

// The input that the node `acc + input` adds, if it is a bias that the library can read in place.
std::optional<size_t> bias_of(const problem::Problem& problem, const Node& node, int accumulator) {
  if (node.op != ir::Op::Add || !computes_in_f32(node)) return std::nullopt;
  const int other = node.operands[node.operands[0] == accumulator ? 1 : 0];
  if (other < 0 || static_cast<size_t>(other) >= problem.epilogue.inputs.size())
    return std::nullopt;
  const auto index = static_cast<size_t>(other);
  const Input& input = problem.epilogue.inputs[index];
  const bool fits = input.role == Role::Row && !input.rows && !input.group_stride &&
                    stores_as(problem, input.dtype) &&
                    problem.views.inputs[index].column_stride == 1;
  return fits ? std::optional(index) : std::nullopt;
}

// Nodes that the library computes, each the only reader of the one before.
class Part {
 public:
  Part(const Epilogue& epilogue, size_t sum) : epilogue_(epilogue), nodes_{sum} {}

  const std::vector<size_t>& nodes() const { return nodes_; }

  // Adds the next node if `accepts` does.
  template <class Accepts>
  bool extend(const Accepts& accepts) {
    const auto next = only_reader(epilogue_, static_cast<int>(epilogue_.inputs.size() + last()));
    if (!next || !accepts(epilogue_.nodes[*next])) return false;
    nodes_.push_back(*next);
    return true;
  }

  // Adds the cast by which the graph rounds the result to `dtype`, unless it has that dtype.
  bool end_in(ir::DType dtype) {
    return epilogue_.nodes[last()].dtype == dtype || extend([&](const Node& node) {
             return node.op == ir::Op::Cast && node.dtype == dtype && !node.saturate;
           });
  }

 private:
  size_t last() const { return nodes_.back(); }

  const Epilogue& epilogue_;
  std::vector<size_t> nodes_;
};

// In fp32 mode, of a float of at most 32 bits.
bool rounds_nothing(const Node& node) {
  return node.op == ir::Op::Cast && node.compute.value_or(node.dtype) == ir::DType::F32 &&
         !node.saturate;
}

bool is_gelu_tanh(const Node& node) {
  return node.op == ir::Op::GeluTanh && computes_in_f32(node);
}

// The epilogue without the nodes `absorbed`, whose readers read the accumulator, of dtype `stored`.
Epilogue rest_after(const Epilogue& epilogue, int accumulator, const std::vector<size_t>& absorbed,
                    ir::DType stored) {
  Epilogue rest = epilogue;
  const auto inputs = static_cast<int>(epilogue.inputs.size());
  std::vector<int> renumbered(epilogue.inputs.size() + epilogue.nodes.size());
  rest.nodes.clear();
  rest.inputs[static_cast<size_t>(accumulator)].rounded = stored;
  for (int i = 0; i < inputs; ++i) renumbered[static_cast<size_t>(i)] = i;
  for (size_t i = 0; i < epilogue.nodes.size(); ++i) {
    int& number = renumbered[epilogue.inputs.size() + i];
    if (std::find(absorbed.begin(), absorbed.end(), i) != absorbed.end()) {
      number = accumulator;
      continue;
    }
    number = inputs + static_cast<int>(rest.nodes.size());
    rest.nodes.push_back(epilogue.nodes[i]);
    for (int& operand : rest.nodes.back().operands)
      operand = renumbered[static_cast<size_t>(operand)];
  }
  for (epilogue::Output& output : rest.outputs)
    output.value = renumbered[static_cast<size_t>(output.value)];
  return rest;
}

}  // namespace

std::vector<VendorEpilogue> vendor_epilogues(const problem::Problem& problem) {
  const Epilogue& epilogue = problem.epilogue;
  std::vector<VendorEpilogue> ways{{VendorTail::None, std::nullopt, epilogue}};
  if (problem.mode != ir::Mode::Fp32 || problem.products.size() != 1 || problem.batch != 1 ||
      problem.products[0].k == 0 || problem.products[0].n != problem.n ||
      problem.products[0].groups ||  // which the library does not multiply
      problem.products[0].accumulator != ir::DType::F32 ||
      ir::is_fp8(problem.views.products[0].a.dtype))  // whose bias is of a type of its own
    return ways;
  const auto found =
      std::find_if(epilogue.inputs.begin(), epilogue.inputs.end(),
                   [](const Input& input) { return input.role == Role::Accumulator; });
  if (found == epilogue.inputs.end() || found->column_step != 1 || !found->column_offset.is(0))
    return ways;
  const auto accumulator = static_cast<int>(found - epilogue.inputs.begin());
  const auto sum = only_reader(epilogue, accumulator);
  if (!sum) return ways;
  const auto bias = bias_of(problem, epilogue.nodes[*sum], accumulator);
  if (!bias) return ways;
  const ir::DType stored = epilogue.inputs[*bias].dtype;
  const auto add = [&](VendorTail tail, Part part) {
    if (part.end_in(stored))
      ways.push_back({tail, bias, rest_after(epilogue, accumulator, part.nodes(), stored)});
  };
  Part part(epilogue, *sum);
  add(VendorTail::Bias, part);
  while (part.extend(rounds_nothing)) {
  }
  if (part.extend(is_gelu_tanh)) add(VendorTail::BiasGeluTanh, part);
  return ways;
}

ir::DType stored_dtype(const problem::Problem& problem, const VendorEpilogue& way, size_t product) {
  return way.bias_input ? problem.epilogue.inputs[*way.bias_input].dtype
                        : problem.products[product].stored;
}

bool is_bare_product(const problem::Problem& problem, const VendorEpilogue& way) {
  const Epilogue& tail = way.rest;
  if (problem.products.size() != 1 || problem.views.outputs.size() != 1) return false;
  const auto value = static_cast<size_t>(tail.outputs[0].value);
  if (!tail.nodes.empty() || tail.inputs[value].role != Role::Accumulator) return false;
  const Input& acc = tail.inputs[value];
  const problem::View& out = problem.views.outputs[0];
  return acc.column_step == 1 && acc.column_offset.is(0) && problem.products[0].n == problem.n &&
         out.dtype == stored_dtype(problem, way, 0) && (out.column_stride == 1 || problem.n == 1) &&
         out.row_stride >= problem.n;
}

}  // namespace attacca::launch
