// Chooses, for a value of the graph, the cheapest expression that a rule has found for it.
#pragma once

#include <optional>
#include <unordered_map>
#include <vector>

#include "fold/constants.hpp"
#include "fold/egraph.hpp"

namespace attacca::fold {

// An expression over values of the original graph.
struct Expression {
  enum class Kind : uint8_t { Value, Number, Apply };
  Kind kind = Kind::Number;
  ir::Value value;
  double number = 0;
  ir::Op op = ir::Op::Add;
  std::vector<double> params;
  std::vector<Expression> args;
};

struct Choice {
  Expression expression;
  const Rule* rule;
};
using Choices = std::unordered_map<uint32_t, Choice>;  // by value id

// The choice for `value`, which equals ref; nullopt: its own op is the cheapest. Values before it
// are built as `choices` says. The expression reads earlier values only and has the value's type.
std::optional<Choice> choose(const ir::Graph& graph, const EGraph& egraph, const Choices& choices,
                             const Constants& constants, ir::Value value, Ref ref);

}  // namespace attacca::fold
