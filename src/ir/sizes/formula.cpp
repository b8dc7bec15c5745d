#include "ir/sizes/formula.hpp"

#include <algorithm>
#include <charconv>
#include <limits>

#include "fmt/format.h"

#include "support/check.hpp"

namespace attacca::ir {
namespace {

struct NamedFunction {
  std::string_view name;
  SizeFunction function;
};
constexpr NamedFunction kFunctions[] = {
    {"floordiv", SizeFunction::FloorDiv}, {"min", SizeFunction::Min}, {"max", SizeFunction::Max}};

// The parts between separators that stand in no brackets.
std::vector<std::string_view> split(std::string_view text, std::string_view separator) {
  std::vector<std::string_view> parts;
  int depth = 0;
  size_t begin = 0;
  for (size_t at = 0; at < text.size(); ++at) {
    depth += (text[at] == '(') - (text[at] == ')');
    if (depth != 0 || !text.substr(at).starts_with(separator)) continue;
    parts.push_back(text.substr(begin, at - begin));
    begin = at + separator.size();
  }
  parts.push_back(text.substr(begin));
  return parts;
}

std::optional<int64_t> integer(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

Result<int64_t> overflow(std::string_view size) {
  return fail(fmt::format("dimension {} overflows 64 bits or divides by 0", size), {},
              "use other sizes");
}

Result<int64_t> evaluate_sum(std::string_view sum, const std::map<std::string, int64_t>& values) {
  int64_t total = 0;
  for (const SizeTerm& term : terms_of(sum)) {
    int64_t product = term.coefficient;
    for (const std::string_view factor : term.factors) {
      ATTACCA_TRY(const int64_t value, evaluate_formula(factor, values));
      if (__builtin_mul_overflow(product, value, &product)) return overflow(sum);
    }
    if (__builtin_add_overflow(total, product, &total)) return overflow(sum);
  }
  return total;
}

}  // namespace

std::optional<SizeFunction> size_function(std::string_view name) {
  for (const NamedFunction& each : kFunctions)
    if (each.name == name) return each.function;
  return std::nullopt;
}

std::optional<Formula> parse_formula(std::string_view symbol) {
  if (symbol.empty() || symbol.back() != ')') return std::nullopt;
  const size_t open = symbol.find('(');
  const auto function = size_function(symbol.substr(0, open));
  const auto operands = split(symbol.substr(open + 1, symbol.size() - open - 2), ", ");
  ATTACCA_CHECK(function && operands.size() == 2, "a symbol that is no formula of sizes");
  return Formula{*function, operands[0], operands[1]};
}

std::string to_string(const Formula& formula) {
  const auto* named =
      std::find_if(std::begin(kFunctions), std::end(kFunctions),
                   [&](const NamedFunction& each) { return each.function == formula.function; });
  return fmt::format("{}({}, {})", named->name, formula.a, formula.b);
}

std::vector<SizeTerm> terms_of(std::string_view sum) {
  std::vector<SizeTerm> terms;
  for (const std::string_view product : split(sum, " + ")) {
    SizeTerm term{1, {}};
    for (const std::string_view factor : split(product, "*")) {
      if (const auto number = integer(factor))
        term.coefficient = *number;
      else
        term.factors.push_back(factor);
    }
    terms.push_back(std::move(term));
  }
  return terms;
}

std::optional<int64_t> apply(SizeFunction function, int64_t a, int64_t b) {
  switch (function) {
    case SizeFunction::Min:
      return std::min(a, b);
    case SizeFunction::Max:
      return std::max(a, b);
    case SizeFunction::FloorDiv:
      if (b == 0 || (b == -1 && a == std::numeric_limits<int64_t>::min())) return std::nullopt;
      return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);
  }
  ATTACCA_CHECK(false, "unknown function of sizes");
}

Result<int64_t> evaluate_formula(std::string_view symbol,
                                 const std::map<std::string, int64_t>& values) {
  const auto formula = parse_formula(symbol);
  if (!formula) {
    const auto found = values.find(std::string(symbol));
    if (found != values.end()) return found->second;
    return fail(fmt::format("dimension {} has no value", symbol), {},
                fmt::format("give it with --dim {}=SIZE", symbol));
  }
  ATTACCA_TRY(const int64_t a, evaluate_sum(formula->a, values));
  ATTACCA_TRY(const int64_t b, evaluate_sum(formula->b, values));
  const auto value = apply(formula->function, a, b);
  return value ? Result<int64_t>(*value) : overflow(symbol);
}

void collect_formula_symbols(std::string_view symbol, std::vector<std::string>& into) {
  if (const auto formula = parse_formula(symbol)) {
    for (const std::string_view operand : {formula->a, formula->b})
      for (const SizeTerm& term : terms_of(operand))
        for (const std::string_view factor : term.factors) collect_formula_symbols(factor, into);
  } else if (std::find(into.begin(), into.end(), symbol) == into.end()) {
    into.emplace_back(symbol);
  }
}

}  // namespace attacca::ir
