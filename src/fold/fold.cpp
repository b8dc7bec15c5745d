#include "fold/fold.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "fmt/format.h"

#include "fold/extract.hpp"
#include "fold/quantized/blocks.hpp"
#include "fold/quantized/dequantized.hpp"
#include "fold/quantized/requantized.hpp"
#include "fold/saturate.hpp"
#include "ir/text/text.hpp"
#include "support/check.hpp"

namespace attacca::fold {
namespace {

using ir::Op;
using ir::Value;

// Ops share an e-graph only if they compute in the same dtype: expressions never cross a rounding
// point.
struct Domain {
  ir::DType dtype;
  std::optional<ir::DType> compute;
  friend auto operator<=>(const Domain&, const Domain&) = default;
};

bool is_comparison(Op op) {
  return op == Op::Lt || op == Op::Le || op == Op::Gt || op == Op::Ge;
}

// The domain of an op that folding rewrites; nullopt: it does not.
std::optional<Domain> domain_of(const ir::Node& node) {
  if (!ir::is_elementwise(node.op) || !ir::is_float(node.type.dtype)) return std::nullopt;
  return Domain{node.type.dtype, node.compute()};
}

constexpr int kExcerptDepth = 4;

// A copy of the top of an expression; what is deeper becomes an input.
Value copy_top(const ir::Graph& graph, Value value, int depth, ir::Graph& into,
               std::map<Value, Value>& copied) {
  if (const auto known = copied.find(value); known != copied.end()) return known->second;
  const ir::Node& node = graph[value];
  Value copy;
  const bool named = !node.name.empty() && depth < kExcerptDepth;
  if (node.literal) {
    copy = into.literal(node.literal->value, node.type.dtype);
  } else if (depth == 0 || named || node.operands.empty()) {
    copy = *into.input(node.name.empty() ? fmt::format("#{}", value.id) : node.name, node.type);
  } else {
    std::vector<Value> operands;
    for (const Value operand : node.operands)
      operands.push_back(copy_top(graph, operand, depth - 1, into, copied));
    copy = *into.add(node.op, std::move(operands), node.attrs);
  }
  return copied[value] = copy;
}

// The expression of a value, cut off where it gets deep.
std::string excerpt(const ir::Graph& graph, Value value) {
  ir::Graph top;
  std::map<Value, Value> copied;
  return ir::print_expression(top, copy_top(graph, value, kExcerptDepth, top, copied));
}

class Folder {
 public:
  explicit Folder(const ir::Graph& graph) : graph_(graph), refs_(graph.size()) {}

  FoldResult run() {
    for (uint32_t id = 0; id < graph_.size(); ++id) visit(Value{id});
    return rebuild();
  }

 private:
  void visit(Value value) {
    const ir::Node& node = graph_[value];
    const auto domain = domain_of(node);
    if (!domain) return;
    DomainGraph& own = domains_.try_emplace(*domain, *domain).first->second;
    EGraph& egraph = own.egraph;
    const auto& params = node.params();
    const bool opaque = std::any_of(params.begin(), params.end(), is_near_miss);
    Ref ref = opaque ? egraph.leaf(value) : insert(own, *domain, node);
    saturate(egraph, ref.cls);
    ref = egraph.find(ref);
    refs_[value.id] = ref;
    if (auto choice = choose(graph_, egraph, choices_, own.constants, value, ref))
      choices_.emplace(value.id, std::move(*choice));
    egraph.anchor(ref, value);
  }

  // The e-graph of one domain's ops, and its constants.
  struct DomainGraph {
    explicit DomainGraph(const Domain& domain)
        : egraph(domain.compute.value_or(domain.dtype)), constants(domain.dtype, domain.compute) {}
    EGraph egraph;
    Constants constants;
  };

  Ref insert(DomainGraph& own, const Domain& domain, const ir::Node& node) {
    std::vector<Ref> args;
    for (const Value operand : node.operands) args.push_back(operand_ref(own, domain, operand));
    const auto ref = own.egraph.apply(node.op, node.params(), args, Cancel::Forbid);
    if (!ref) return own.egraph.opaque(node.op, node.params(), std::move(args));
    return is_constant(*ref) ? constant(own.constants.computed(ref->scale)) : *ref;
  }

  Ref operand_ref(DomainGraph& own, const Domain& domain, Value operand) {
    const ir::Node& node = graph_[operand];
    if (node.op == Op::Constant && node.type.dtype != ir::DType::Bool)
      if (const auto number = own.constants.read(node)) return constant(*number);
    if (domain_of(node) == domain) return *refs_[operand.id];
    if (is_comparison(node.op) && compares_in(domain, node)) return insert(own, domain, node);
    const Ref leaf = own.egraph.leaf(operand);
    if (own.egraph[leaf.cls].anchors.empty()) own.egraph.anchor(leaf, operand);
    return leaf;
  }

  // A comparison does not round, so its domain is that of its operands.
  bool compares_in(const Domain& domain, const ir::Node& node) const {
    for (const Value operand : node.operands)
      if (graph_.type(operand).dtype != domain.dtype && !graph_[operand].literal) return false;
    return true;
  }

  // The values that the result computes.
  std::vector<bool> needed() const {
    std::vector<bool> needed(graph_.size(), false);
    for (const ir::Output& output : graph_.outputs()) needed[output.value.id] = true;
    for (const Value input : graph_.inputs()) needed[input.id] = true;
    for (uint32_t id = static_cast<uint32_t>(graph_.size()); id-- > 0;) {
      if (!needed[id]) continue;
      if (const auto choice = choices_.find(id); choice != choices_.end())
        mark(choice->second.expression, needed);
      else
        for (const Value operand : graph_.nodes()[id].operands) needed[operand.id] = true;
    }
    return needed;
  }

  static void mark(const Expression& expression, std::vector<bool>& needed) {
    if (expression.kind == Expression::Kind::Value) needed[expression.value.id] = true;
    for (const Expression& arg : expression.args) mark(arg, needed);
  }

  FoldResult rebuild() {
    const std::vector<bool> wanted = needed();
    FoldResult result;
    result.graph.name = graph_.name;
    moved_.resize(graph_.size());
    std::vector<std::pair<std::string_view, Value>> applied;
    for (uint32_t id = 0; id < graph_.size(); ++id) {
      if (!wanted[id]) continue;
      const ir::Node& node = graph_.nodes()[id];
      const auto choice = choices_.find(id);
      moved_[id] = choice != choices_.end() ? emit(result.graph, choice->second.expression, node)
                                            : copy(result.graph, node);
      ATTACCA_CHECK(result.graph.type(moved_[id]) == node.type, "folding changed a type");
      if (node.op != Op::Input && !node.name.empty())
        ATTACCA_CHECK(result.graph.set_name(moved_[id], node.name).has_value(),
                      "a folded value lost its name");
      if (choice != choices_.end())
        applied.emplace_back(choice->second.rule->text.name, moved_[id]);
    }
    for (const ir::Output& output : graph_.outputs())
      result.graph.add_output(moved_[output.value.id], output.name);
    for (const auto& [rule, value] : applied)
      result.applied.push_back({std::string(rule), excerpt(result.graph, value)});
    return result;
  }

  Value copy(ir::Graph& into, const ir::Node& node) const {
    const auto value = ir::copy_moved(into, node, moved_);
    ATTACCA_CHECK(value.has_value(), "a copied node is invalid");
    return *value;
  }

  Value emit(ir::Graph& into, const Expression& expression, const ir::Node& root) const {
    if (expression.kind == Expression::Kind::Value) return moved_[expression.value.id];
    if (expression.kind == Expression::Kind::Number)
      return into.literal(expression.number, root.type.dtype);
    std::vector<Value> operands;
    for (const Expression& arg : expression.args) operands.push_back(emit(into, arg, root));
    const auto value = into.add(expression.op, std::move(operands),
                                ir::ElementwiseAttrs{expression.params, root.compute()});
    ATTACCA_CHECK(value.has_value(), "a folded node is invalid");
    return *value;
  }

  const ir::Graph& graph_;
  std::map<Domain, DomainGraph> domains_;
  std::vector<std::optional<Ref>> refs_;  // of values with a domain, in its e-graph
  Choices choices_;
  std::vector<Value> moved_;  // where an old value is in the result
};

}  // namespace

FoldResult fold(const ir::Graph& graph) {
  const FoldResult bytes = drop_requantized(graph);
  const FoldResult blocks = recover_blocks(bytes.graph);
  const FoldResult products = multiply_quantized(blocks.graph);
  FoldResult result = Folder(products.graph).run();
  for (const FoldResult* before : {&products, &blocks, &bytes})
    result.applied.insert(result.applied.begin(), before->applied.begin(), before->applied.end());
  return result;
}

}  // namespace attacca::fold
