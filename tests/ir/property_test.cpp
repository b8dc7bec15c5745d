// Properties that hold for all values: rapidcheck draws random ones, and shrinks a counterexample.
#include <cmath>

#include "gtest/gtest.h"

#include "ir/graph/dim.hpp"
#include "ir/graph/dtype.hpp"
#include "rapidcheck.h"

namespace attacca::ir {
namespace {

constexpr DType kNarrow[] = {DType::F32, DType::F16, DType::BF16, DType::F8E4M3, DType::F8E5M2};

Dim draw_dim() {
  Dim dim = *rc::gen::inRange(-4, 5);
  for (const char* name : {"A", "B"})
    dim = dim + Dim::symbol(name) * Dim(*rc::gen::inRange(-3, 4)) * (dim + 1);
  return dim;
}

TEST(DimLaws, DimsFormARing) {
  EXPECT_TRUE(rc::check([] {
    const Dim a = draw_dim(), b = draw_dim(), c = draw_dim();
    RC_ASSERT(a + b == b + a);
    RC_ASSERT(a * b == b * a);
    RC_ASSERT((a * b) * c == a * (b * c));
    RC_ASSERT(a * (b + c) == a * b + a * c);
    RC_ASSERT(a - a == Dim(0));
  }));
}

TEST(DimLaws, EvaluationFollowsTheAlgebra) {
  EXPECT_TRUE(rc::check([] {
    const Dim a = draw_dim(), b = draw_dim();
    const SymbolValues at{{"A", *rc::gen::inRange(0, 9)}, {"B", *rc::gen::inRange(0, 9)}};
    const auto x = a.evaluate(at), y = b.evaluate(at);
    RC_PRE(x.has_value() && y.has_value());
    RC_ASSERT((a * b).evaluate(at).value() == *x * *y);
    RC_ASSERT((a + b).evaluate(at).value() == *x + *y);
  }));
}

TEST(DimLaws, DivisionUndoesMultiplication) {
  EXPECT_TRUE(rc::check([] {
    const Dim a = draw_dim();
    const Dim factor = Dim(*rc::gen::inRange(1, 9)) * Dim::symbol("A");
    RC_ASSERT(divide(a * factor, factor) == a);
    const Dim sum = draw_dim();
    RC_PRE(!sum.is(0));
    RC_ASSERT(divide(a * sum, sum) == a);
    const auto whole = divide(a * sum + 1, sum);
    if (whole) RC_ASSERT(*whole * sum == a * sum + 1);
  }));
}

double draw_number() {
  return std::ldexp(*rc::gen::arbitrary<double>(), *rc::gen::inRange(-40, 40));
}

TEST(RoundingLaws, RoundingIsIdempotentOddAndMonotone) {
  EXPECT_TRUE(rc::check([] {
    const double x = draw_number(), y = draw_number();
    for (const DType dtype : kNarrow) {
      const double rounded = round_to(dtype, x);
      RC_ASSERT(std::isnan(rounded) || round_to(dtype, rounded) == rounded);
      RC_ASSERT(std::isnan(rounded) || round_to(dtype, -x) == -rounded);
      const double low = round_to(dtype, std::min(x, y), Overflow::Saturate);
      RC_ASSERT(low <= round_to(dtype, std::max(x, y), Overflow::Saturate));
    }
  }));
}

TEST(RoundingLaws, SavedBitsReadBackAsTheRoundedValue) {
  EXPECT_TRUE(rc::check([] {
    const auto x = static_cast<float>(draw_number());
    for (const DType dtype : {DType::F16, DType::BF16}) {
      const double rounded = round_to(dtype, x);
      RC_ASSERT(std::isnan(rounded) || decode16(dtype, encode16(dtype, x)) == rounded);
    }
    for (const DType dtype : {DType::F8E4M3, DType::F8E5M2}) {
      const double rounded = round_to(dtype, x);
      RC_ASSERT(std::isnan(rounded) || decode8(dtype, encode8(dtype, x)) == rounded);
    }
  }));
}

TEST(RoundingLaws, SaturatedIntegersStayInRange) {
  EXPECT_TRUE(rc::check([] {
    const double x = draw_number();
    const int64_t s8 = to_integer(DType::S8, x, Overflow::Saturate);
    const int64_t u8 = to_integer(DType::U8, x, Overflow::Saturate);
    RC_ASSERT(-128 <= s8 && s8 <= 127);
    RC_ASSERT(0 <= u8 && u8 <= 255);
    RC_ASSERT(std::fabs(x) > 127 || s8 == static_cast<int64_t>(x));
  }));
}

}  // namespace
}  // namespace attacca::ir
