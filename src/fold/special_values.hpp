// Whether a rewrite keeps NaN and infinities where they are.
//
// The value and its replacement are computed from the graph values that both depend on, at NaN,
// infinities, zeros, huge, tiny and moderate numbers: in f64, and rounded to the dtype that the
// graph computes in. This is no proof, but it finds cases that rules and normal forms, which hold
// for real numbers, do not show: max(x, 0) is NaN at NaN where where(x > 0, x, 0) is 0, and elu(x /
// 0.1) * 0.1 is infinite at a large x where where(x > 0, x, 0.1 * expm1(x / 0.1)) is x.
#pragma once

#include "fold/expression.hpp"

namespace attacca::fold {

// The contract is "Special values" in fold/rules.def. REQUIRES: the expression reads values before
// `value` only.
bool keeps_special_values(const ir::Graph& graph, ir::Value value, const Expression& expression);

}  // namespace attacca::fold
