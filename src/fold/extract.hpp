// Chooses, for a value of the graph, the cheapest expression that a rule has found for it.
#pragma once

#include <optional>
#include <unordered_map>

#include "fold/constants.hpp"
#include "fold/egraph.hpp"
#include "fold/expression.hpp"

namespace attacca::fold {

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
