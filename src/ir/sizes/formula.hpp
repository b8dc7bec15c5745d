// Sizes that no polynomial says: `floordiv(M + 1, 2)`, `min(M, 512)`, `max(M + -3, 0)`. A Dim holds
// one as a symbol whose name is this text, which ir/graph/size_functions.hpp writes. A size in it
// is a sum of products, as Dims are printed.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "support/error.hpp"

namespace attacca::ir {

enum class SizeFunction { FloorDiv, Min, Max };

std::optional<SizeFunction> size_function(std::string_view name);

struct Formula {
  SizeFunction function;
  std::string_view a, b;
};

// nullopt: a plain symbol.
std::optional<Formula> parse_formula(std::string_view symbol);
std::string to_string(const Formula& formula);

struct SizeTerm {
  int64_t coefficient;
  std::vector<std::string_view> factors;  // symbols, plain ones and formulas
};

// REQUIRES: a Dim's text.
std::vector<SizeTerm> terms_of(std::string_view sum);

// nullopt: a division by 0 or overflow.
std::optional<int64_t> apply(SizeFunction function, int64_t a, int64_t b);

// The value of a formula, which may be negative. Errors: a symbol without a value, overflow, a
// division by 0.
Result<int64_t> evaluate_formula(std::string_view symbol,
                                 const std::map<std::string, int64_t>& values);

// The plain symbols of a formula, appended in order, no duplicates.
void collect_formula_symbols(std::string_view symbol, std::vector<std::string>& into);

}  // namespace attacca::ir
