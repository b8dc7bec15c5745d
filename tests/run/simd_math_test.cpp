// The vector functions against the C library's f64 ones, over every exponent and the specials.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "gtest/gtest.h"

#include "run/cpu/kernels/kernel.hpp"
#include "targets.hpp"

namespace attacca::run {
namespace {

// Distance in units in the last place of f32, from the correctly rounded value. Zeros of different
// signs are far apart.
int64_t ulps(float got, double reference) {
  const auto want = static_cast<float>(reference);
  if (want == 0 && got == 0) return std::signbit(want) == std::signbit(got) ? 0 : 1 << 30;
  if (std::isnan(want) || std::isnan(got)) return std::isnan(want) == std::isnan(got) ? 0 : 1 << 30;
  const auto ordered = [](float x) -> int64_t {
    const auto bits = std::bit_cast<uint32_t>(x);
    const int64_t magnitude = bits & 0x7FFFFFFFu;
    return bits >> 31 ? -magnitude : magnitude;
  };
  return std::abs(ordered(got) - ordered(want));
}

// Every sign and exponent, `step` apart in the fraction, with a shifting start, and the specials.
const std::vector<float>& samples() {
  static const std::vector<float> all = [] {
    std::vector<float> values;
    uint32_t start = 0;
    for (uint32_t top = 0; top < 512; ++top, start = (start * 1103515245u + 12345u) & 0xFFFu)
      for (uint32_t fraction = start; fraction < (1u << 23); fraction += 4093)
        values.push_back(std::bit_cast<float>((top << 23) | fraction));
    const float infinity = std::numeric_limits<float>::infinity();
    for (const float x : {0.0f, -0.0f, infinity, -infinity, 1.0f, -1.0f, 0.5f, 88.72284f, -103.97f,
                          -87.33655f, 1e-45f, -1e-45f, 3.4028235e38f, -3.4028235e38f})
      values.push_back(x);
    return values;
  }();
  return all;
}
// Dense where the functions bend.
const std::vector<float>& dense() {
  static const std::vector<float> all = [] {
    std::vector<float> values;
    for (int i = -1'200'000; i <= 1'200'000; ++i) values.push_back(static_cast<float>(i) * 9.1e-5f);
    return values;
  }();
  return all;
}

struct Function {
  ir::Op op;
  double (*reference)(double);
};

class SimdMath : public testing::TestWithParam<Function> {};

void check_within(const Function& function, const std::vector<float>& inputs, int64_t bound) {
  std::vector<float> outputs(inputs.size());
  KernelArgs args{.out = outputs.data(), .in = {inputs.data()}, .count = inputs.size()};
  float_kernel(function.op, false)(args);
  int64_t worst = 0;
  float where = 0;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const int64_t distance = ulps(outputs[i], function.reference(inputs[i]));
    if (distance > worst) worst = distance, where = inputs[i];
  }
  EXPECT_LE(worst, bound) << name(function.op) << " at " << where;
}

TEST_P(SimdMath, IsWithinTwoUlps) {
  for_each_target([] {
    check_within(GetParam(), samples(), 2);
    check_within(GetParam(), dense(), 2);
  });
}

// What an element gives does not depend on its neighbours, which may be of another row.
TEST(SimdMath, LanesDoNotDependOnEachOther) {
  std::vector<float> inputs;
  for (size_t i = 0; i < samples().size(); i += 501) inputs.push_back(samples()[i]);
  for (size_t i = 0; i < dense().size(); i += 401) inputs.push_back(dense()[i]);
  std::shuffle(inputs.begin(), inputs.end(), std::mt19937(7));
  for_each_target([&] {
    for (const ir::OpInfo& op : ir::all_ops()) {
      if (op.max_arity != 1 || !ir::is_elementwise(op.op)) continue;
      const Kernel kernel = float_kernel(op.op, false);
      if (kernel == nullptr) continue;
      std::vector<float> together(inputs.size()), alone(inputs.size());
      const double alpha = 0.25;
      kernel({.out = together.data(),
              .in = {inputs.data()},
              .count = inputs.size(),
              .params = {alpha, 1, 1}});
      for (size_t i = 0; i < inputs.size(); ++i)
        kernel({.out = &alone[i], .in = {&inputs[i]}, .count = 1, .params = {alpha, 1, 1}});
      for (size_t i = 0; i < inputs.size(); ++i)
        ASSERT_EQ(std::bit_cast<uint32_t>(together[i]), std::bit_cast<uint32_t>(alone[i]))
            << op.name << " at " << inputs[i];
    }
  });
}

constexpr Function kFunctions[] = {
    {ir::Op::Exp, std::exp},     {ir::Op::Expm1, std::expm1}, {ir::Op::Log, std::log},
    {ir::Op::Log1p, std::log1p}, {ir::Op::Tanh, std::tanh},   {ir::Op::Erf, std::erf},
    {ir::Op::Erfc, std::erfc},   {ir::Op::Sin, std::sin},     {ir::Op::Cos, std::cos},
};
INSTANTIATE_TEST_SUITE_P(All, SimdMath, testing::ValuesIn(kFunctions),
                         [](const auto& test) { return std::string(name(test.param.op)); });

}  // namespace
}  // namespace attacca::run
