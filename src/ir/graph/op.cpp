#include "ir/graph/op.hpp"

#include <string>
#include <unordered_map>

#include "ir/graph/semantics.hpp"
#include "support/check.hpp"
#include "support/immortal.hpp"

namespace attacca::ir {
namespace {

#define PARAM(name, value) \
  Param {                  \
    name, value            \
  }
#define PARAMS(...) \
  { __VA_ARGS__ }
// One array for each row, because an OpInfo refers to it.
template <Op op>
struct ParamsOf;
#define ELEMENTWISE(NAME, TEXT, ARITY, RULE, TRAITS, COST, PARAMETERS, ...) \
  template <>                                                               \
  struct ParamsOf<Op::NAME> {                                               \
    static constexpr Param values[4] = PARAMETERS;                          \
  };
#include "ir/graph/ops.def"

constexpr size_t count(const Param (&params)[4]) {
  size_t n = 0;
  while (n < 3 && !params[n].name.empty()) ++n;
  return n;
}

constexpr bool Commutative = true, Plain = false;

constexpr OpInfo kInfos[] = {
#define STRUCTURAL(NAME, TEXT, MIN, MAX, ATTRS)                  \
  {Op::NAME, TEXT,          OpKind::Structural, MIN, MAX, false, \
   0,        TypeRule::Any, Attributes::ATTRS,  {},  {},  {}},
#define REDUCTION(NAME, TEXT, COST)                               \
  {Op::NAME, TEXT,          OpKind::Reduction,     1,  1,  false, \
   COST,     TypeRule::Any, Attributes::Reduction, {}, {}, {}},
#define ELEMENTWISE(NAME, TEXT, ARITY, RULE, TRAITS, COST, PARAMETERS, REFERENCE, ...) \
  {Op::NAME,                                                                           \
   TEXT,                                                                               \
   OpKind::Elementwise,                                                                \
   ARITY,                                                                              \
   ARITY,                                                                              \
   TRAITS,                                                                             \
   COST,                                                                               \
   TypeRule::RULE,                                                                     \
   Attributes::Elementwise,                                                            \
   {ParamsOf<Op::NAME>::values, count(ParamsOf<Op::NAME>::values)},                    \
   #REFERENCE,                                                                         \
   #__VA_ARGS__},
#include "ir/graph/ops.def"
};

constexpr bool in_table_order() {
  for (size_t i = 0; i < std::size(kInfos); ++i)
    if (static_cast<size_t>(kInfos[i].op) != i) return false;
  return true;
}
static_assert(in_table_order(),
              "ops.def must list structural ops, then reductions, then elementwise");

// Evaluates a row over T; a Float row exists over double only.
template <class T>
T evaluate_row(Op op, std::span<const T> operands, std::span<const double> params) {
  const T x = operands[0];
  const T y = operands.size() > 1 ? operands[1] : T(0);
  const T z = operands.size() > 2 ? operands[2] : T(0);
  const double p = params.size() > 0 ? params[0] : 0;
  const double q = params.size() > 1 ? params[1] : 0;
  const double r = params.size() > 2 ? params[2] : 0;
  (void)y, (void)z, (void)p, (void)q, (void)r;
  switch (op) {
#define ELEMENTWISE(NAME, TEXT, ARITY, RULE, TRAITS, COST, PARAMETERS, REFERENCE, ...) \
  case Op::NAME:                                                                       \
    if constexpr (std::is_same_v<T, double> || TypeRule::RULE != TypeRule::Float)      \
      return static_cast<T>(REFERENCE);                                                \
    else                                                                               \
      break;
#include "ir/graph/ops.def"
    default:
      break;
  }
  ATTACCA_CHECK(false, std::string("no elementwise reference for ") + std::string(name(op)));
}

}  // namespace

const OpInfo& info(Op op) {
  return kInfos[static_cast<size_t>(op)];
}

std::span<const OpInfo> all_ops() {
  return kInfos;
}

std::optional<Op> parse_op(std::string_view name) {
  const auto& by_name = immortal([] {
    std::unordered_map<std::string_view, Op> map;
    for (const OpInfo& entry : kInfos) map.emplace(entry.name, entry.op);
    return map;
  });
  const auto found = by_name.find(name);
  if (found == by_name.end()) return std::nullopt;
  return found->second;
}

double evaluate(Op op, std::span<const double> operands, std::span<const double> params) {
  return evaluate_row<double>(op, operands, params);
}

int64_t evaluate(Op op, std::span<const int64_t> operands, std::span<const double> params) {
  return evaluate_row<int64_t>(op, operands, params);
}

}  // namespace attacca::ir
