// Explains a fold that did not happen: each rule of the op is matched with the graph as written,
// and the one that matches the largest part of its formula reports where it stops.
#include <cmath>
#include <map>
#include <optional>

#include "fmt/format.h"

#include "fold/constants.hpp"
#include "fold/egraph.hpp"
#include "fold/fold.hpp"
#include "fold/rule.hpp"
#include "ir/text/text.hpp"

namespace attacca::fold {
namespace {

using ir::Op;
using ir::Value;

constexpr size_t kMaxPlaces = 512;  // nodes at which rules are tried

struct Bound {
  std::map<std::string, Value> variables;
  std::map<size_t, double> captures;
};

// How much of a formula matched. A mismatch names what was expected, what was found, and where.
struct Attempt {
  int matched = 0;  // nodes of the formula
  std::optional<std::string> mismatch;
  Bound bound;
};

std::optional<double> number_at(const ir::Graph& graph, Value value) {
  const ir::Node& node = graph[value];
  if (node.op == Op::Neg)
    if (const auto number = number_at(graph, node.operands[0])) return -*number;
  if (node.op != Op::Constant) return std::nullopt;
  if (node.literal) return node.literal->value;
  if (node.tensor->size() == 1 && ir::is_float(node.type.dtype)) return node.tensor->number_at(0);
  return std::nullopt;
}

// -y, 0 - y and -1 * y count as the same.
std::optional<Value> negated(const ir::Graph& graph, Value value) {
  const ir::Node& node = graph[value];
  if (node.op == Op::Neg) return node.operands[0];
  if (node.op == Op::Sub && number_at(graph, node.operands[0]) == 0) return node.operands[1];
  if (node.op == Op::Mul)
    for (const size_t i : {0, 1})
      if (number_at(graph, node.operands[i]) == -1) return node.operands[1 - i];
  return std::nullopt;
}

class Overlay {
 public:
  Overlay(const ir::Graph& formula, const ir::Graph& graph) : formula_(formula), graph_(graph) {}

  Attempt at(Value place) const {
    return match(formula_.outputs()[0].value, place, {}, "the result");
  }

 private:
  Attempt match(Value wanted, Value got, Attempt so_far, const std::string& where) const {
    const ir::Node& pattern = formula_[wanted];
    if (pattern.op == Op::Input) return variable(pattern.name, got, std::move(so_far), where);
    if (pattern.op == Op::Constant)
      return number(pattern.literal->value, got, std::move(so_far), where);
    if (pattern.op == Op::Neg)
      if (const auto inner = negated(graph_, got)) {
        ++so_far.matched;
        return match(pattern.operands[0], *inner, std::move(so_far), operand_of(1, Op::Neg));
      }
    const ir::Node& node = graph_[got];
    if (node.op != pattern.op)
      return stop(std::move(so_far), ir::name(pattern.op), text(got), where);
    ++so_far.matched;
    for (size_t i = 0; i < node.params().size() && !so_far.mismatch; ++i) {
      const std::string name(ir::info(node.op).params[i].name);
      so_far = constant(pattern.params()[i], node.params()[i], got, std::move(so_far),
                        fmt::format("{} of {}", name, ir::name(node.op)));
    }
    if (so_far.mismatch) return so_far;
    Attempt straight = operands(pattern, node, so_far, false);
    if (!straight.mismatch || !ir::info(node.op).commutative) return straight;
    Attempt swapped = operands(pattern, node, so_far, true);
    const bool better = !swapped.mismatch || swapped.matched > straight.matched;
    return better ? swapped : straight;
  }

  Attempt operands(const ir::Node& pattern, const ir::Node& node, Attempt so_far,
                   bool swapped) const {
    for (size_t i = 0; i < node.operands.size() && !so_far.mismatch; ++i) {
      const size_t j = swapped ? node.operands.size() - 1 - i : i;
      so_far = match(pattern.operands[i], node.operands[j], std::move(so_far),
                     operand_of(j + 1, node.op));
    }
    return so_far;
  }

  Attempt variable(const std::string& name, Value got, Attempt so_far,
                   const std::string& where) const {
    const auto [bound, fresh] = so_far.bound.variables.emplace(name, got);
    if (!fresh && bound->second != got && text(bound->second) != text(got))
      return stop(std::move(so_far), fmt::format("{} = {}", name, text(bound->second)), text(got),
                  where);
    ++so_far.matched;
    return so_far;
  }

  Attempt number(double wanted, Value got, Attempt so_far, const std::string& where) const {
    if (const auto value = number_at(graph_, got))
      return constant(wanted, *value, got, std::move(so_far), where);
    const auto capture = captured(wanted);
    return stop(std::move(so_far),
                capture ? fmt::format("a constant {}", kCaptures[capture->index])
                        : fmt::format("{}", wanted),
                text(got), where);
  }

  Attempt constant(double wanted, double got, Value place, Attempt so_far,
                   const std::string& where) const {
    if (const auto capture = captured(wanted)) {
      const auto [bound, fresh] =
          so_far.bound.captures.emplace(capture->index, capture->sign * got);
      wanted = bound->second * capture->sign;
      if (!fresh && !same(wanted, got))
        return stop(std::move(so_far),
                    fmt::format("{} = {}", kCaptures[capture->index], bound->second),
                    fmt::format("{}", got), where);
    } else if (!means(place, wanted, got)) {
      return stop(std::move(so_far), fmt::format("{}", wanted), fmt::format("{}", got), where);
    }
    ++so_far.matched;
    return so_far;
  }

  // Whether a number at this place stands for the formula's, by the same rule as in folding.
  bool means(Value place, double wanted, double got) const {
    const ir::Node& node = graph_[place];
    if (node.tensor && ir::round_to(node.type.dtype, wanted) == got) return true;
    return stands_for(got, wanted, node.compute().value_or(node.type.dtype));
  }

  static std::string operand_of(size_t i, Op op) {
    return fmt::format("operand {} of {}", i, ir::name(op));
  }

  static Attempt stop(Attempt so_far, std::string_view wanted, std::string_view got,
                      std::string_view where) {
    so_far.mismatch = fmt::format("wanted {}, got {}, at {}", wanted, got, where);
    return so_far;
  }

  std::string text(Value value) const { return ir::print_expression(graph_, value); }

  const ir::Graph& formula_;
  const ir::Graph& graph_;
};

// Why a rule whose formula matches did not fire.
std::string despite_match(const Rule& rule, const Bound& bound, const ir::Graph& graph,
                          Value place) {
  std::array<double, kCaptures.size()> values = {};
  std::string given;
  for (const auto& [index, value] : bound.captures) {
    values[index] = value;
    given += fmt::format("{}{} = {}", given.empty() ? "" : ", ", kCaptures[index], value);
  }
  if (!rule.text.holds(values[0], values[1], values[2], values[3]))
    return fmt::format("wanted {}, got {}", rule.text.condition, given);
  if (rule.text.differs == Differs::Nan) return std::string(rule.text.why);
  const ir::DType dtype = graph.type(place).dtype;
  if (rule.text.differs == Differs::Single && dtype == ir::DType::F64)
    return fmt::format("{}, and f64 holds more", rule.text.why);
  if (!ir::is_float(dtype)) return fmt::format("wanted floats, got {}", ir::name(dtype));
  for (const auto& [name, value] : bound.variables)
    if (graph.type(value).dtype != dtype)
      return fmt::format("wanted one dtype, got {} = {} of {} in a result of {}", name,
                         ir::print_expression(graph, value), ir::name(graph.type(value).dtype),
                         ir::name(dtype));
  return "the formula matches, but the fold would change the result's shape, join differing "
         "compute types, or cost more than it saves";
}

int size_of(const ir::Graph& formula) {
  return static_cast<int>(formula.size());
}

std::vector<Value> places(const ir::Graph& graph) {
  std::vector<bool> reached(graph.size(), false);
  const Value root = graph.outputs()[0].value;
  reached[root.id] = true;
  std::vector<Value> result;
  for (uint32_t id = root.id + 1; id-- > 0 && result.size() < kMaxPlaces;) {
    if (!reached[id]) continue;
    const ir::Node& node = graph.nodes()[id];
    for (const Value operand : node.operands) reached[operand.id] = true;
    if (ir::is_elementwise(node.op)) result.push_back(Value{id});
  }
  return result;
}

}  // namespace

Result<std::string> why_not(const ir::Graph& graph, std::string_view op_name) {
  const auto op = ir::parse_op(op_name);
  std::string known;
  for (const Rule& rule : rules())
    if (rule.defines) known += fmt::format("{}{}", known.empty() ? "" : ", ", ir::name(rule.op));
  bool yields = false;
  for (const Rule& rule : rules()) yields |= op && rule.op == *op;
  if (!yields)
    return fail(fmt::format("no rule yields {}", op_name), std::string(op_name),
                "ask for one of " + known);
  if (graph.outputs().empty())
    return fail("the graph has no outputs", graph.name, "return a value");
  const ir::Graph result = fold(graph).graph;
  const Value output = result.outputs()[0].value;
  if (result[output].op == *op)
    return fmt::format("it folds to {}", ir::print_expression(result, output));

  const Rule* nearest = nullptr;
  Attempt best;
  Value best_place;
  double best_score = -1;
  for (const Value place : places(graph))
    for (const Rule& rule : rules()) {
      if (rule.op != *op) continue;
      Attempt attempt = Overlay(rule.formula, graph).at(place);
      const double score =
          attempt.mismatch ? static_cast<double>(attempt.matched) / size_of(rule.formula) : 1000.0;
      if (score <= best_score) continue;
      best_score = score;
      nearest = &rule;
      best = std::move(attempt);
      best_place = place;
    }
  if (!nearest) return fmt::format("{} holds no elementwise op", graph.name);
  return fmt::format(
      "{} = {}: {}", nearest->text.result, nearest->text.pattern,
      best.mismatch ? *best.mismatch : despite_match(*nearest, best.bound, graph, best_place));
}

}  // namespace attacca::fold
