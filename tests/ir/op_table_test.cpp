// Every row of the op table: the emitted code computes what the reference computes.
#include <bit>
#include <cfloat>
#include <cmath>
#include <random>
#include <vector>

#include "gtest/gtest.h"

#include "ir/graph/op.hpp"

namespace attacca::ir {
namespace {

struct EmittedOp {
  Op op;
  float (*run)(float x, float y, float z, float p, float q, float r);
};

// The emitted column is CUDA C++ that is host C++ too: here it is compiled, not only printed.
const EmittedOp kEmitted[] = {
#define ELEMENTWISE(NAME, TEXT, ARITY, RULE, TRAITS, COST, PARAMETERS, REFERENCE, ...) \
  {Op::NAME,                                                                           \
   []([[maybe_unused]] float x, [[maybe_unused]] float y, [[maybe_unused]] float z,    \
      [[maybe_unused]] float p, [[maybe_unused]] float q,                              \
      [[maybe_unused]] float r) -> float { return __VA_ARGS__; }},
#include "ir/graph/ops.def"
};

const float kSpecial[] = {0.0f,  -0.0f,  1.0f,   -1.0f, 0.5f,   -3.0f,    3.0f,      7.5f, -20.0f,
                          90.0f, -90.0f, 1e-30f, 1e30f, -1e30f, INFINITY, -INFINITY, NAN};

std::vector<double> default_params(const OpInfo& info) {
  std::vector<double> params;
  for (const Param& param : info.params) params.push_back(param.default_value);
  return params;
}

// By how many units in the last place emitted code may differ from the reference rounded to f32. 0:
// f32 computes it exactly, or rounds once.
int units(Op op) {
  switch (op) {
    case Op::Neg:
    case Op::Abs:
    case Op::Sign:
    case Op::Reciprocal:
    case Op::Square:
    case Op::Sqrt:
    case Op::Floor:
    case Op::Ceil:
    case Op::Round:
    case Op::Not:
    case Op::Relu:
    case Op::Relu6:
    case Op::Clamp:
    case Op::Add:
    case Op::Sub:
    case Op::Mul:
    case Op::Div:
    case Op::Fmod:
    case Op::Max:
    case Op::Min:
    case Op::Lt:
    case Op::Le:
    case Op::Gt:
    case Op::Ge:
    case Op::Eq:
    case Op::Ne:
    case Op::And:
    case Op::Or:
    case Op::Xor:
    case Op::Where:
    case Op::ReGlu:
      return 0;
    // Terms cancel, or an exponential magnifies the rounding of its argument.
    case Op::HardSigmoid:
    case Op::Sigmoid:
    case Op::Silu:
    case Op::Gelu:
    case Op::GeluTanh:
    case Op::QuickGelu:
    case Op::Mish:
    case Op::SwiGlu:
    case Op::GeGlu:
    case Op::GeGluTanh:
    case Op::ClampedSwiGlu:
      return 64;
    default:
      return 4;  // functions of the C library, and short formulas
  }
}

// Whether the op is one of a factor that may be 0 in f32 though it is not in f64, if x < -10.
bool may_underflow(Op op) {
  return units(op) == 64 && op != Op::HardSigmoid;
}

bool close(Op op, double want, float got, double slack) {
  const auto rounded = static_cast<float>(want);
  if (std::isnan(want) || std::isnan(got)) return std::isnan(want) && std::isnan(got);
  if (units(op) == 0) return std::bit_cast<uint32_t>(rounded) == std::bit_cast<uint32_t>(got);
  if (std::isinf(rounded) || std::isinf(got)) return rounded == got;
  const int exponent = std::ilogb(std::max(std::fabs(want), double{FLT_MIN}));
  return std::fabs(want - got) <= std::ldexp(units(op), exponent - (FLT_MANT_DIG - 1)) + slack;
}

class EmittedCode : public testing::TestWithParam<EmittedOp> {};

TEST_P(EmittedCode, AgreesWithTheReference) {
  const OpInfo& row = info(GetParam().op);
  const std::vector<double> params = default_params(row);
  const auto param = [&](size_t i) {
    return i < params.size() ? static_cast<float>(params[i]) : 0.0f;
  };
  std::vector<float> samples(std::begin(kSpecial), std::end(kSpecial));
  std::mt19937 random(7);
  std::normal_distribution<float> normal(0, 3);
  for (int i = 0; i < 60; ++i) samples.push_back(normal(random));
  for (const float x : samples)
    for (const float y : samples) {
      const float z = samples[(static_cast<size_t>(std::fabs(x)) * 7) % samples.size()];
      const double operands[] = {x, y, z};
      const double want = evaluate(row.op, {operands, static_cast<size_t>(row.max_arity)}, params);
      const float got = GetParam().run(x, y, z, param(0), param(1), param(2));
      double slack = 0;
      if (may_underflow(row.op) && x < -10) {
        if (row.max_arity == 2 && std::isinf(y)) continue;  // 0 in f32, times infinity
        slack = FLT_MIN * std::fabs(x) * (row.max_arity == 2 ? std::fabs(y) : 1);
      }
      ASSERT_TRUE(close(row.op, want, got, slack))
          << row.name << "(" << x << ", " << y << ", " << z << "): reference " << want
          << ", emitted " << got;
    }
}

INSTANTIATE_TEST_SUITE_P(OpTable, EmittedCode, testing::ValuesIn(kEmitted),
                         [](const auto& test) { return std::string(ir::name(test.param.op)); });

TEST(OpTable, NamesAreUniqueAndParse) {
  for (const OpInfo& row : all_ops()) EXPECT_EQ(parse_op(row.name), row.op) << row.name;
  EXPECT_FALSE(parse_op("no_such_op"));
}

TEST(OpTable, CommutativeRowsCommute) {
  for (const OpInfo& row : all_ops()) {
    if (!row.commutative) continue;
    for (const double x : {-2.5, 0.0, 3.0})
      for (const double y : {-1.0, 0.25, 7.0}) {
        const double xy[] = {x, y}, yx[] = {y, x};
        EXPECT_EQ(evaluate(row.op, xy, {}), evaluate(row.op, yx, {})) << row.name;
      }
  }
}

TEST(OpTable, NanPropagatesAsInPyTorch) {
  const double nan = NAN;
  for (const Op op : {Op::Relu, Op::Relu6, Op::Clamp, Op::LeakyRelu, Op::Elu, Op::Silu, Op::Gelu,
                      Op::HardSwish, Op::HardSigmoid, Op::Softplus, Op::Mish, Op::Sign}) {
    const double x[] = {nan};
    EXPECT_TRUE(std::isnan(evaluate(op, x, default_params(info(op))))) << name(op);
  }
  for (const Op op : {Op::Min, Op::Max}) {
    const double left[] = {nan, 1.0}, right[] = {1.0, nan};
    EXPECT_TRUE(std::isnan(evaluate(op, left, {}))) << name(op);
    EXPECT_TRUE(std::isnan(evaluate(op, right, {}))) << name(op);
  }
}

TEST(OpTable, IntegersWrapAndTruncate) {
  const auto binary = [](Op op, int64_t x, int64_t y) {
    const int64_t operands[] = {x, y};
    return evaluate(op, operands, {});
  };
  constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
  EXPECT_EQ(binary(Op::Div, -7, 2), -3);
  EXPECT_EQ(binary(Op::Div, 7, 0), 0);
  EXPECT_EQ(binary(Op::Div, kMin, -1), kMin);
  EXPECT_EQ(binary(Op::Add, std::numeric_limits<int64_t>::max(), 1), kMin);
  EXPECT_EQ(binary(Op::Pow, 3, 4), 81);
  EXPECT_EQ(binary(Op::Pow, 2, -1), 0);
}

}  // namespace
}  // namespace attacca::ir
