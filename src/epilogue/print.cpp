#include <algorithm>

#include "fmt/format.h"

#include "epilogue/epilogue.hpp"
#include "support/text/escaped.hpp"

namespace attacca::epilogue {
namespace {

using ir::Op;

// The precedence of an expression; an operand with a lower one gets parentheses.
enum Binding { kCompare, kSum, kProduct, kUnary, kAtom };

struct Infix {
  Op op;
  std::string_view text;
  Binding binding;
};

constexpr Infix kInfixes[] = {
    {Op::Add, "+", kSum},     {Op::Sub, "-", kSum},     {Op::Mul, "*", kProduct},
    {Op::Div, "/", kProduct}, {Op::Lt, "<", kCompare},  {Op::Le, "<=", kCompare},
    {Op::Gt, ">", kCompare},  {Op::Ge, ">=", kCompare}, {Op::Eq, "==", kCompare},
    {Op::Ne, "!=", kCompare},
};

// Longer expressions get a name of their own, so that a text stays readable and linear in size.
constexpr size_t kLongest = 160;

struct Piece {
  std::string text;
  Binding binding = kAtom;
};

class Printer {
 public:
  Printer(const Epilogue& epilogue, const ir::Graph& graph)
      : epilogue_(epilogue),
        graph_(graph),
        inputs_(static_cast<int>(epilogue.inputs.size())),
        uses_(epilogue.inputs.size() + epilogue.nodes.size(), 0) {}

  std::string run(int root) {
    const std::vector<int> order = reachable(root);
    std::vector<Piece> pieces(uses_.size());
    std::vector<std::string> lets;
    for (const int ref : order) {
      pieces[ref] = piece_of(ref, pieces);
      const bool shared = uses_[ref] > 1 && pieces[ref].binding != kAtom;
      const bool called = uses_[ref] > 1 && ref >= inputs_ && !is_leaf(ref);
      const bool is_long = pieces[ref].text.size() > kLongest;
      if (ref == root || !(shared || called || is_long)) continue;
      const std::string name = fmt::format("u{}", lets.size());
      lets.push_back(fmt::format("{} = {}", name, pieces[ref].text));
      pieces[ref] = {name, kAtom};
    }
    if (lets.empty()) return pieces[root].text;
    return fmt::format("{} where {}", pieces[root].text, fmt::join(lets, ", "));
  }

  std::string input_text(const Input& input) const {
    if (input.role == Role::Accumulator) return accumulator_text(input);
    const bool several =
        std::count_if(epilogue_.inputs.begin(), epilogue_.inputs.end(), [&](const Input& other) {
          return other.role != Role::Accumulator && other.source == input.source;
        }) > 1;
    const std::string rows =
        input.rows ? fmt::format("[{}]", display_name(graph_, input.rows->source)) : "";
    return fmt::format("{}({}{}{}{})", name(input.role), display_name(graph_, input.source), rows,
                       several ? place_text(input.access) : "",
                       input.group_stride ? " by group" : "");
  }

 private:
  bool is_leaf(int ref) const {
    return ref < inputs_ || epilogue_.nodes[ref - inputs_].op == Op::Constant;
  }

  // Ascending, and counts the uses.
  std::vector<int> reachable(int root) {
    std::vector<bool> reached(uses_.size(), false);
    reached[root] = true;
    std::vector<int> order;
    for (int ref = root; ref >= 0; --ref) {
      if (!reached[ref]) continue;
      order.push_back(ref);
      if (ref < inputs_) continue;
      for (const int operand : epilogue_.nodes[ref - inputs_].operands) {
        reached[operand] = true;
        ++uses_[operand];
      }
    }
    std::reverse(order.begin(), order.end());
    return order;
  }

  // Distinguishes two reads of one tensor: "[1::2]", in elements from its start.
  static std::string place_text(const Access& access) {
    const ir::Dim& row = access.strides[access.strides.size() - 2];
    const ir::Dim& step = access.strides.back().is(0) ? row : access.strides.back();
    const std::string every = step.is(0) || step.is(1) ? "" : ":" + to_string(step);
    return fmt::format("[{}:{}]", to_string(access.offset), every);
  }

  std::string accumulator_text(const Input& input) const {
    int index = 0, count = 0;
    for (const Input& other : epilogue_.inputs) {
      if (&other == &input) index = count;
      count += other.role == Role::Accumulator;
    }
    return count > 1 ? fmt::format("acc{}", index) : "acc";
  }

  static std::string wrap(const Piece& piece, int at_least) {
    return piece.binding < at_least ? "(" + piece.text + ")" : piece.text;
  }

  Piece piece_of(int ref, const std::vector<Piece>& pieces) const {
    if (ref < inputs_) return {input_text(epilogue_.inputs[ref]), kAtom};
    const Node& node = epilogue_.nodes[ref - inputs_];
    if (node.op == Op::Constant)
      return {fmt::format("{}", node.literal), node.literal < 0 ? kUnary : kAtom};
    if (!node.compute) {
      for (const Infix& infix : kInfixes)
        if (infix.op == node.op)
          return {fmt::format("{} {} {}", wrap(pieces[node.operands[0]], infix.binding), infix.text,
                              wrap(pieces[node.operands[1]], infix.binding + 1)),
                  infix.binding};
      if (node.op == Op::Neg) return {"-" + wrap(pieces[node.operands[0]], kAtom), kUnary};
    }
    return {call_text(node, pieces), kAtom};
  }

  static std::string call_text(const Node& node, const std::vector<Piece>& pieces) {
    std::vector<std::string> arguments;
    for (const int operand : node.operands) arguments.push_back(pieces[operand].text);
    if (node.op == Op::Cast) arguments.emplace_back(name(node.dtype));
    if (node.saturate) arguments.emplace_back("saturate=true");
    const auto params = ir::info(node.op).params;
    for (size_t i = 0; i < node.params.size() && i < params.size(); ++i)
      if (node.params[i] != params[i].default_value)
        arguments.push_back(fmt::format("{}={}", params[i].name, node.params[i]));
    if (node.compute) arguments.push_back(fmt::format("compute={}", name(*node.compute)));
    const std::string_view callee = node.function.empty() ? name(node.op) : node.function;
    return fmt::format("{}({})", callee, fmt::join(arguments, ", "));
  }

  const Epilogue& epilogue_;
  const ir::Graph& graph_;
  int inputs_;
  std::vector<int> uses_;
};

}  // namespace

std::string_view name(Role role) {
  static constexpr std::string_view kNames[] = {"acc", "row", "col", "full", "scalar"};
  return kNames[static_cast<size_t>(role)];
}

std::string display_name(const ir::Graph& graph, ir::Value value) {
  return escaped(node_name(graph, value));
}

std::string node_name(const ir::Graph& graph, ir::Value value) {
  const std::string& name = graph[value].name;
  if (!name.empty()) return name;
  for (const ir::Output& output : graph.outputs())
    if (output.value == value) return output.name;
  return fmt::format("t{}", value.id);
}

std::string print(const Epilogue& epilogue, const ir::Graph& graph, const Output& output) {
  const std::string value = Printer(epilogue, graph).run(output.value);
  switch (output.kind) {
    case OutputKind::Store:
      return value;
    case OutputKind::RowReduce:
      return fmt::format("{} of each row of {}", name(output.reduction), value);
    case OutputKind::ColumnReduce:
      return fmt::format("{} of each column of {}", name(output.reduction), value);
    case OutputKind::FullReduce:
      return fmt::format("{} of all of {}", name(output.reduction), value);
    case OutputKind::BatchReduce:
      return fmt::format("{} over the matrices of {}", name(output.reduction), value);
    case OutputKind::ScatterAdd:
      return fmt::format("{}({}, {}, {})", name(output.reduction),
                         graph[output.base].literal
                             ? fmt::format("{}", graph[output.base].literal->value)
                             : display_name(graph, output.base),
                         display_name(graph, output.rows->source), value);
  }
  return value;
}

std::string print(const Epilogue& epilogue, const ir::Graph& graph, const Input& input) {
  return Printer(epilogue, graph).input_text(input);
}

}  // namespace attacca::epilogue
