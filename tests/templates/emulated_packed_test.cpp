// Emulated kernels whose packed 4-bit weights are rounded to bf16: scales of every size, whether
// they fold (ir/packed/packed.hpp) or not.
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"

#include "ir/packed/packed.hpp"
#include "templates/emulator/kernels.hpp"

namespace attacca::emulator {
namespace {

constexpr int kN = 72, kK = 192, kGroup = 64, kGroups = kK / kGroup;
constexpr size_t kFlagsAt = 36;
constexpr uint8_t kFolds = 2;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// One half of each accumulator of the identity times the weights, [kK, kN].
std::vector<uint16_t> halves(const Kernel& kernel, const ir::Tensor& packed,
                             const ir::PackedLayout& layout, bool upper) {
  std::vector<uint16_t> identity(kK * kK), out(kK * kN);
  for (int i = 0; i < kK; ++i) identity[i * kK + i] = 0x3f80;
  attacca_gemm_arguments g{};
  g.m = g.k = kK;
  g.n = kN;
  g.batch = 1;
  g.sm_count = 2;
  g.a = {identity.data(), kK, 1, 0};
  g.b.pointer = const_cast<std::byte*>(packed.data());
  g.packed = {layout.scales_at, layout.zeros_at, kGroups,
              kGroup,           layout.zero(),   layout.packing.zeros};
  g.result[0] = {out.data(), kN, 1, 0};
  g.context.rows = kK;
  g.context.columns = kN;
  g.context.batches = 1;
  accumulators_alone = true;
  upper_halves = upper;
  EXPECT_EQ(launch(kernel, g, 1), "");
  accumulators_alone = upper_halves = false;
  return out;
}

std::vector<float> products(const Kernel& kernel, const ir::Tensor& packed,
                            const ir::PackedLayout& layout) {
  const std::vector<uint16_t> lower = halves(kernel, packed, layout, false),
                              upper = halves(kernel, packed, layout, true);
  std::vector<float> all(lower.size());
  for (size_t i = 0; i < all.size(); ++i) {
    const uint32_t bits = uint32_t{upper[i]} << 16 | lower[i];
    std::memcpy(&all[i], &bits, sizeof bits);
  }
  return all;
}

class EmulatedPacked : public ::testing::TestWithParam<Kernel> {
 protected:
  // Random codes and zero points; scales from `next`.
  template <class Next>
  void check(const ir::Packing& packing, bool folds, const Next& next) {
    ir::Quantized from;
    from.weights = *ir::Tensor::make(packing.weights, {kN, kK / 2});
    for (int64_t i = 0; i < from.weights.size(); ++i)
      from.weights.as<uint8_t>()[i] = static_cast<uint8_t>(random_());
    from.scales = *ir::Tensor::make(packing.scales, {kN, kGroups});
    for (int64_t i = 0; i < from.scales.size(); ++i) from.scales.set_number(i, next(i));
    const ir::PackedLayout layout = *ir::packed_layout(packing, kN, kK);
    if (packing.zeros) {
      from.zeros = *ir::Tensor::make(packing.weights, {kN, kGroups});
      for (int64_t i = 0; i < from.zeros->size(); ++i)
        from.zeros->set_integer(i, static_cast<int64_t>(random_() % 16) - layout.zero());
    }
    ir::Tensor packed = *ir::pack(from, packing);
    uint8_t& flags = packed.as<uint8_t>()[kFlagsAt];
    ASSERT_EQ((flags & kFolds) != 0, folds);
    const std::vector<float> got = products(GetParam(), packed, layout);
    compare(got, packed, layout, from.scales);
    if (!folds) return;
    // A tensor of a version without the flag.
    flags &= static_cast<uint8_t>(~kFolds);
    const std::vector<float> in_two_steps = products(GetParam(), packed, layout);
    EXPECT_EQ(std::memcmp(got.data(), in_two_steps.data(), got.size() * sizeof(float)), 0);
  }

  double usual_scale() {
    if (random_() % 8 == 0) return random_() % 2 ? 0.0 : -0.0;
    const double fraction = 1 + static_cast<double>(random_() % 128) / 128;
    const double size = std::ldexp(fraction, -static_cast<int>(random_() % 124));
    return random_() % 2 ? size : -size;
  }

  std::mt19937 random_{20261128};

 private:
  // Kernels round weights divided by at most 64, so that very small ones lose some bits. A scale
  // that is not finite makes all of its column NaN, since 0 times infinity is; one by which weights
  // become infinite does so or not.
  static void compare(const std::vector<float>& got, const ir::Tensor& packed,
                      const ir::PackedLayout& layout, const ir::Tensor& scales) {
    ir::Tensor weights = *ir::Tensor::make(ir::DType::BF16, {kN, kK});
    ir::dequantize({packed.data(), static_cast<size_t>(packed.bytes())}, layout, weights);
    for (int n = 0; n < kN; ++n) {
      bool finite = true, huge = false;
      for (int group = 0; group < kGroups; ++group) {
        const double scale = scales.number_at(n * kGroups + group);
        finite = finite && std::isfinite(scale);
        huge = huge || std::abs(scale) >= 0x1p124;
      }
      if (finite && huge) continue;
      for (int k = 0; k < kK; ++k) {
        const double wanted = weights.number_at(n * kK + k), is = got[k * kN + n];
        const double slack = std::abs(wanted) < 0x1p-119 ? 0x1p-128 : 0;
        ASSERT_TRUE(!finite ? std::isnan(is) : is == wanted || std::abs(is - wanted) <= slack)
            << "[" << n << ", " << k << "] is " << is << ", wanted " << wanted << ", scale "
            << scales.number_at(n * kGroups + k / kGroup);
      }
    }
  }
};

constexpr ir::Packing kSigned = {ir::DType::S8, 4, kGroup, ir::DType::BF16, false};
constexpr ir::Packing kUnsigned = {ir::DType::U8, 4, kGroup, ir::DType::BF16, false};
constexpr ir::Packing kWithZeros = {ir::DType::S8, 4, kGroup, ir::DType::BF16, true};

TEST_P(EmulatedPacked, ScalesThatFold) {
  check(kSigned, true, [&](int64_t) { return usual_scale(); });
  constexpr double kLimits[] = {0x1p-123, 1.9921875, -0x1p-123, -1.9921875, 0};
  check(kSigned, true, [&](int64_t) { return kLimits[random_() % std::size(kLimits)]; });
}

TEST_P(EmulatedPacked, OneScaleThatDoesNot) {
  for (const double scale : {2.0, -1e37, 0x1.fcp-124, 0x1p-133, kInfinity, std::nan("")})
    check(kSigned, false, [&](int64_t i) { return i == 40 ? scale : usual_scale(); });
}

TEST_P(EmulatedPacked, ScalesOfAllBits) {
  for (const ir::Packing& packing : {kSigned, kUnsigned, kWithZeros})
    check(packing, false, [&](int64_t) {
      return double{ir::decode16(ir::DType::BF16, static_cast<uint16_t>(random_()))};
    });
}

TEST_P(EmulatedPacked, ZeroPointsAndUnsignedCodes) {
  for (const ir::Packing& packing : {kUnsigned, kWithZeros})
    check(packing, false, [&](int64_t) { return usual_scale(); });
}

std::vector<Kernel> packed_kernels() {
  std::vector<Kernel> all;
  for (const Kernel& each : kernels()) {
    const attacca_info info = each.record->info();
    if (info.packed_bits == 4 && info.packed_rounds && info.packed_scale_bits == 16 &&
        info.input_types[0] == std::string("bf16") && info.result_bits[0] == 16)
      all.push_back(each);
  }
  return all;
}

ATTACCA_NEEDS_KERNELS(EmulatedPacked);
INSTANTIATE_TEST_SUITE_P(Templates, EmulatedPacked, ::testing::ValuesIn(packed_kernels()),
                         [](const auto& test) { return test.param.record->entry.name; });

}  // namespace
}  // namespace attacca::emulator
