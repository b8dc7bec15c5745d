// The chains' own roundings and activations, on every instruction set.
#include "run/cpu/kernels/chain.hpp"

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "gtest/gtest.h"

#include "ir/graph/dtype.hpp"
#include "targets.hpp"

namespace attacca::run {
namespace {

using ir::DType;

std::vector<double> bf16_results(Activation activation, const std::vector<float>& x) {
  const auto count = static_cast<int64_t>(x.size());
  std::vector<uint16_t> codes(x.size());
  const ChainKernel kernel = chain_kernel(false, activation, Join::None, false, true);
  if (!kernel) return {};  // an instruction set without chains
  kernel({.x = x.data(),
          .x_stride = count,
          .out = codes.data(),
          .out_stride = count,
          .rows = 1,
          .columns = count});
  std::vector<double> results;
  for (const uint16_t code : codes) {
    const uint32_t bits = uint32_t{code} << 16;
    float value;
    std::memcpy(&value, &bits, sizeof value);
    results.push_back(value);
  }
  return results;
}

TEST(Chain, StoresBf16AsTheReferenceRounds) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  std::vector<float> x{0.0f, -0.0f, kInf, -kInf, std::nanf(""), 3.4e38f, -3.4e38f, 1.00390625f};
  // Ties, their neighbours and subnormals of every size, in vectors with and without each.
  for (uint32_t high = 0; high < 0x8000; high += 7)
    for (const uint32_t low : {0x7FFFu, 0x8000u, 0x8001u, 0x18000u}) {
      const uint32_t bits = (high << 16) + low;
      float value;
      std::memcpy(&value, &bits, sizeof value);
      x.push_back(value);
      x.push_back(-value);
    }
  for_each_target([&] {
    const std::vector<double> got = bf16_results(Activation::None, x);
    for (size_t i = 0; i < got.size(); ++i) {
      const double want = ir::round_to(DType::BF16, static_cast<double>(x[i]));
      ASSERT_TRUE(got[i] == want || (std::isnan(got[i]) && std::isnan(want)))
          << x[i] << " gives " << got[i] << ", wanted " << want;
      ASSERT_EQ(std::signbit(got[i]), std::signbit(want)) << x[i];
    }
  });
}

// A half unit of the result's last place from rounding, and 2^-17 from the polynomials.
TEST(Chain, CoarseGeluIsRightBeyondItsResult) {
  std::vector<float> x;
  for (int i = -13 * 4096; i <= 13 * 4096; ++i) x.push_back(static_cast<float>(i) / 4099);
  for (const float large : {1e3f, 1e30f, -1e3f, -1e30f}) x.push_back(large);
  for_each_target([&] {
    const std::vector<double> got = bf16_results(Activation::GeluCoarse, x);
    for (size_t i = 0; i < got.size(); ++i) {
      const double exact = x[i] * std::erfc(-x[i] / std::sqrt(2.0)) / 2;
      int exponent;
      std::frexp(exact, &exponent);
      const double ulp = std::ldexp(1.0, std::max(exponent, -125) - 8);
      ASSERT_LE(std::fabs(got[i] - exact), ulp / 2 + std::fabs(exact) * 0x1p-17)
          << x[i] << " gives " << got[i] << ", wanted " << exact;
    }
    const std::vector<double> special = bf16_results(
        Activation::GeluCoarse, {std::nanf(""), std::numeric_limits<float>::infinity()});
    if (special.empty()) return;
    EXPECT_TRUE(std::isnan(special[0]));
    EXPECT_EQ(special[1], std::numeric_limits<double>::infinity());
  });
}

}  // namespace
}  // namespace attacca::run
