// Random expressions, near misses of known formulas among them, folded, and compared with the
// originals by the test's own evaluator. ATTACCA_SEED takes another seed, ATTACCA_EXPRESSIONS
// another count.
#include <cmath>
#include <iostream>
#include <random>
#include <regex>

#include "fmt/format.h"

#include "evaluator.hpp"
#include "fold_testing.hpp"
#include "setting.hpp"

namespace attacca::fold {
namespace {

// Formulas as people write them, listed here and not taken from the rule table. X and Y stand for
// expressions.
const char* const kFormulas[] = {
    "1 / (1 + exp(-X))",
    "exp(X) / (1 + exp(X))",
    "0.5 * (1 + tanh(0.5 * X))",
    "1 - 1 / (1 + exp(X))",
    "reciprocal(1 + exp(0 - X))",
    "(exp(2 * X) - 1) / (exp(2 * X) + 1)",
    "(exp(X) - exp(-X)) / (exp(X) + exp(-X))",
    "2 * sigmoid(2 * X) - 1",
    "1 - 2 / (exp(2 * X) + 1)",
    "expm1(2 * X) / (exp(2 * X) + 1)",
    "X * sigmoid(X)",
    "X / (1 + exp(-X))",
    "X * exp(X) / (1 + exp(X))",
    "X * sigmoid(1.5 * X)",
    "0.5 * X * (1 + tanh(0.5 * X))",
    "0.5 * X + 0.5 * X * tanh(X / 2)",
    "X - X * sigmoid(-X)",
    "X * sigmoid(1.702 * X)",
    "X / (1 + exp(-1.702 * X))",
    "X / (2 + 2 * exp(-X))",
    "0.5 * X * (1 + erf(X * 0.7071067811865476))",
    "X * (1 + erf(X / 1.4142135623730951)) / 2",
    "0.5 * X * erfc(X * -0.7071067811865476)",
    "0.5 * X * (1 - erf(-0.7071067811865476 * X))",
    "0.5 * X + 0.5 * X * erf(0.7071067811865476 * X)",
    "0.5 * X * (1 + tanh(0.7978845608028654 * (X + 0.044715 * pow(X, 3))))",
    "0.5 * X * (1 + tanh(0.7978845608028654 * X * (1 + 0.044715 * X * X)))",
    "X * sigmoid(1.5957691216057308 * (X + 0.044715 * square(X) * X))",
    "log(1 + exp(X))",
    "log1p(exp(X))",
    "max(X, 0) + log1p(exp(-abs(X)))",
    "-log(sigmoid(-X))",
    "where(X > 20, X, log1p(exp(X)))",
    "X * tanh(softplus(X))",
    "X * tanh(log(1 + exp(X)))",
    "X * (square(1 + exp(X)) - 1) / (square(1 + exp(X)) + 1)",
    "max(X, 0)",
    "where(X > 0, X, 0)",
    "where(X >= 0, X, 0)",
    "where(X < 0, 0, X)",
    "where(X <= 0, 0, X)",
    "0.5 * (X + abs(X))",
    "min(max(X, 0), 6)",
    "clamp(X, min=0, max=6)",
    "where(X < 0, 0.2 * X, X)",
    "where(X > 0, X, 0.01 * X)",
    "where(X >= 0, X, 0.2 * X)",
    "max(X, 0.2 * X)",
    "min(X, 3 * X)",
    "max(X, 0) + 0.2 * min(X, 0)",
    "max(X, 0) - 0.2 * max(-X, 0)",
    "where(X > 0, X, 0.5 * (exp(X) - 1))",
    "where(X < 0, expm1(X), X)",
    "max(X, 0) + 0.5 * min(exp(X) - 1, 0)",
    "max(X, 0) + 0.5 * exp(min(X, 0)) - 0.5",
    "1.0507009873554805 * where(X > 0, X, 1.6732632423543772 * (exp(X) - 1))",
    "min(max(X, -2), 3)",
    "max(min(X, 3), -2)",
    "where(X > 3, 3, X)",
    "where(X < 3, X, 3)",
    "where(X > 3, 3, max(X, -2))",
    "where(X > -2, min(X, 3), -2)",
    "where(X < -2, -2, min(X, 3))",
    "clamp(0.2 * X + 0.5, min=0, max=1)",
    "relu6(X + 3) / 6",
    "X * clamp(X + 3, min=0, max=6) / 6",
    "X * relu6(X + 3) / 6",
    "X * hardsigmoid(X)",
    "X * (relu6(X + 3) * 0.16666666666666666)",
    "X * clamp(X / 6 + 0.5, min=0, max=1)",
    "1 / sqrt(X)",
    "pow(X, -0.5)",
    "1 / pow(X, 0.5)",
    "pow(X * X + 0.25, -0.5)",
    "X * X",
    "pow(X, 2)",
    "exp(2 * log(X))",
    "exp(-log(1 + exp(-X)))",
    "sqrt(X * X)",
    "pow(abs(X), 0.5)",
    "X / (1 + exp(-X)) * Y",
    "Y * X * sigmoid(X)",
    "Y * (0.5 * X * (1 + erf(X * 0.7071067811865476)))",
    "max(X, 0) * Y",
    "Y * where(X > 0, X, 0)",
    "gelu(X) * Y",
    "X * sigmoid(1.702 * X) * Y",
    "min(X, 7) * sigmoid(1.702 * min(X, 7)) * (clamp(Y, min=-7, max=7) + 1)",
    "where(X > Y, X - Y, 0.2 * (X - Y))",
    "where(X >= Y, X, Y)",
    "max(X, Y) * 1",
    "X * Y + X * X",
    "where(X < 0, 0.1 * expm1(X / 0.1), X)",
    "where(X > 0, X, 3 * (exp(X / 3) - 1))",
    "max(X, 0) + min(0.25 * (exp(X / 0.25) - 1), 0)",
    "max(X, 0) + 0.1 * expm1(min(X, 0) / 0.1)",
    "tanh(X) + 1e-20",
};

class Generator {
 public:
  explicit Generator(uint64_t seed) : random_(seed) {}

  std::string expression() {
    std::string text = formula(2);
    switch (pick(8)) {
      case 0:
        return fmt::format("({}) * ({})", text, formula(1));
      case 1:
        return fmt::format("({}) + ({})", text, formula(1));
      case 2:
        return fmt::format("({}) / ({})", text, formula(1));
      case 3:
        return fmt::format("({}) - 3 * ({})", text, text);
      default:
        return text;
    }
  }

 private:
  std::string formula(int depth) {
    std::string text = kFormulas[pick(std::size(kFormulas))];
    for (size_t mutations = pick(3); mutations > 0; --mutations) text = mutated(text);
    const std::string x = operand(depth), y = pick(3) == 0 ? operand(depth) : "y";
    std::string result;
    for (const char c : text) result += c == 'X' ? x : c == 'Y' ? y : std::string(1, c);
    return result;
  }

  std::string operand(int depth) {
    static const char* const operands[] = {"x",          "x",      "x",       "(x + y)",
                                           "(2 * x)",    "(-x)",   "(x * y)", "(x - 1)",
                                           "(x * 0.25)", "abs(x)", "(x / y)"};
    if (depth > 1 && pick(6) == 0) return "(" + formula(depth - 1) + ")";
    return operands[pick(std::size(operands))];
  }

  std::string mutated(const std::string& text) {
    switch (pick(4)) {
      case 0:
      case 1: {
        static const std::regex number(R"(\b[0-9]+(\.[0-9]+)?\b)");
        return replaced(text, number,
                        [&](const std::string& found) { return near_miss(std::stod(found)); });
      }
      case 2: {
        static const std::regex sign(R"( [-+*/] )");
        static const char* const signs[] = {" - ", " + ", " * ", " / "};
        return replaced(text, sign, [&](const std::string&) { return signs[pick(4)]; });
      }
      default: {
        static const std::regex word(R"(>=|<=|>|<|max\(|min\(|-X|\bX\b)");
        return replaced(text, word, [&](const std::string& found) -> std::string {
          if (found == "X") return pick(2) == 0 ? "-X" : "Y";
          if (found == "-X") return "X";
          if (found == "max(") return "min(";
          if (found == "min(") return "max(";
          static const char* const comparisons[] = {">", ">=", "<", "<="};
          return comparisons[pick(4)];
        });
      }
    }
  }

  std::string near_miss(double number) {
    const double infinity = pick(2) == 0 ? HUGE_VAL : -HUGE_VAL;
    const double sign = std::copysign(1.0, infinity);
    switch (pick(9)) {
      case 0:
        return fmt::format("{}", number * (1 + sign * 1e-6));
      case 1:
        return fmt::format("{}", number * (1 + sign * 1e-7));
      case 2:
        return fmt::format("{}", number * (1 + sign * 1e-10));
      case 3:
        return fmt::format(
            "{}", std::nextafter(static_cast<float>(number), static_cast<float>(infinity)) * 1.0);
      case 4:
        return fmt::format("{}", std::nextafter(number, infinity));
      case 5:
        return fmt::format("{}", number + 1);
      case 6:
        return fmt::format("{}", 2 * number);
      case 7:
        return fmt::format("{}", static_cast<double>(static_cast<float>(number)));
      default:
        return fmt::format("-{}", number);
    }
  }

  // One of the places, chosen at random, where the pattern is.
  template <class Make>
  std::string replaced(const std::string& text, const std::regex& pattern, const Make& make) {
    const std::vector<std::smatch> found(std::sregex_iterator(text.begin(), text.end(), pattern),
                                         {});
    if (found.empty()) return text;
    const std::smatch& place = found[pick(found.size())];
    return place.prefix().str() == text
               ? text
               : text.substr(0, static_cast<size_t>(place.position())) + make(place.str()) +
                     text.substr(static_cast<size_t>(place.position() + place.length()));
  }

  size_t pick(size_t n) { return std::uniform_int_distribution<size_t>(0, n - 1)(random_); }

  std::mt19937_64 random_;
};

// The relative tolerance with which folding may take one constant for another.
double tolerance_f32(double literal) {
  const auto is_near = [&](double number, double reach) {
    return std::fabs(std::fabs(literal) - number) <= reach * number;
  };
  for (const double number : {1.4142135623730951, 0.7978845608028654, 1.5957691216057308, 1.702,
                              1.0507009873554805, 1.6732632423543772, 1.7580993408473766})
    for (const double factor : {1.0, 2.0, 3.0, 0.5, 0.25})
      if (is_near(number * factor, 3e-6) || is_near(factor / number, 3e-6)) return 3e-6;
  for (const double number : {1.0 / 6, 1.0 / 3, 0.05, 0.044715, 0.01, 0.1, 0.2})
    if (is_near(number, 1e-7)) return 1.5e-7;
  if (literal == 20) return 0.5;  // softplus's threshold: to f32, log1p(exp(x)) is x from there on
  return 2e-14;
}
double tolerance_f64(double) {
  return 2e-14;
}

struct Tally {
  int folded = 0, compared = 0, unknown = 0, limits = 0;
};

// Whether the folded expression has the same values.
testing::AssertionResult keeps(const std::string& text, ir::DType dtype, Tally& tally) {
  static const std::vector<double> xs =
      special_numbers({0.3, 0.75, 1, 2.5, 3, 5, 6.5, 20.5, 30, 95, 750, 1e5});
  static const std::vector<double> ys = {-1.375, 2.5, NAN, HUGE_VAL, -HUGE_VAL, 0, -0.0, 1e300};
  const auto graph = ir::parse_expression(text, {dtype, {ir::Dim::symbol("N")}});
  if (!graph || graph->inputs().empty()) return testing::AssertionSuccess();
  const FoldResult result = fold(*graph);
  if (result.applied.empty()) return testing::AssertionSuccess();
  ++tally.folded;
  const LiteralError literals = dtype == ir::DType::F64 ? tolerance_f64 : tolerance_f32;
  const bool two = text.find('y') != std::string::npos;
  for (const double x : xs)
    for (const double y : two ? ys : std::vector{1.0}) {
      const Compared compared = compare(*graph, result.graph, {{"x", x}, {"y", y}}, literals);
      ++tally.compared;
      tally.unknown += compared.verdict == Verdict::Unknown;
      tally.limits += compared.verdict == Verdict::Limit;
      if (compared.verdict != Verdict::Nan && compared.verdict != Verdict::Differs) continue;
      return testing::AssertionFailure()
             << fmt::format("{} folds to {}, and at x = {}, y = {}: {}", text,
                            printed(result.graph), x, y, compared.values);
    }
  return testing::AssertionSuccess();
}

TEST(FoldDifferential, KeepsValuesAndSpecialValues) {
  const uint64_t seed = setting("ATTACCA_SEED", 20261123);
  const uint64_t count = setting("ATTACCA_EXPRESSIONS", 3000);
  std::cout << "ATTACCA_SEED=" << seed << "\n";
  Tally tally;
  Generator generator(seed);
  for (uint64_t i = 0; i < count; ++i) {
    const std::string text = generator.expression();
    for (const ir::DType dtype : {ir::DType::F64, ir::DType::F32})
      EXPECT_TRUE(keeps(text, dtype, tally)) << ir::name(dtype) << ", expression " << i;
  }
  std::cout << fmt::format("{} folds, {} values, {} of unknown limit, {} limits\n", tally.folded,
                           tally.compared, tally.unknown, tally.limits);
  EXPECT_GT(static_cast<uint64_t>(tally.folded), count / 3);
  EXPECT_LT(tally.unknown, tally.compared / 3);
}

}  // namespace
}  // namespace attacca::fold
