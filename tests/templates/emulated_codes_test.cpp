// Emulated kernels whose weights are in codes, as the op's definition rounds them: integers with
// zero points and scales of every size, and MXFP4, every code with every scale, also those that
// make it subnormal, infinite or NaN.
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"

#include "ir/graph/dtype.hpp"
#include "ir/interpret/mxfp4.hpp"
#include "templates/emulator/kernels.hpp"

namespace attacca::emulator {
namespace {

// A group of weights, [n, k] in codes with a scale for each block of k, and zero points or none.
struct Weights {
  int n, k, block;
  const void *codes, *scales;
  const uint8_t* zeros;
};

// One row times the weights.
std::vector<float> product(const Kernel& kernel, const std::vector<uint16_t>& row,
                           const Weights& weights) {
  std::vector<float> out(static_cast<size_t>(weights.n));
  const int32_t end = 1;
  attacca_gemm_arguments g{};
  g.m = g.batch = g.groups = 1;
  g.n = weights.n;
  g.k = weights.k;
  g.sm_count = 2;
  g.a = {const_cast<uint16_t*>(row.data()), weights.k, 1, 0};
  g.b = {const_cast<void*>(weights.codes), 1, weights.k, int64_t{weights.n} * weights.k};
  g.codes.scales[0] = const_cast<void*>(weights.scales);
  g.codes.zeros[0] = const_cast<uint8_t*>(weights.zeros);
  g.codes.block = weights.block;
  g.codes.has_zeros = weights.zeros != nullptr;
  g.result[0] = {out.data(), weights.n, 1, 0};
  g.group_ends = &end;
  g.group_stride = 1;
  g.context.rows = g.context.batches = 1;
  g.context.columns = weights.n;
  accumulators_alone = true;
  EXPECT_EQ(launch(kernel, g, 1), "");
  accumulators_alone = false;
  return out;
}

class EmulatedCodes : public ::testing::TestWithParam<Kernel> {};
class EmulatedMxFp4 : public ::testing::TestWithParam<Kernel> {};

// Column n has a code and a zero point of its own at one value of k, which alone meets a 1. Of 4
// bits all pairs occur, of 8 bits as many.
TEST_P(EmulatedCodes, CodesAndZeroPoints) {
  const attacca_info info = GetParam().record->info();
  constexpr int kN = 4096, kK = 64, kBlock = 32, kPlace = 37;
  const ir::DType dtype =
      info.input_types[0] == std::string("bf16") ? ir::DType::BF16 : ir::DType::F16;
  const int bits = info.code_bits, least = dtype == ir::DType::BF16 ? -100 : -18;
  std::mt19937 random(11);
  std::vector<uint8_t> codes(size_t{kN} * kK * bits / 8), zeros(kN * kK / kBlock);
  for (uint8_t& code : codes) code = static_cast<uint8_t>(random());
  std::vector<uint16_t> scales(zeros.size()), row(kK);
  for (uint16_t& scale : scales) {
    const double fraction = 1 + static_cast<double>(random() % 4096) / 4096;
    const int exponent = least + static_cast<int>(random() % static_cast<uint32_t>(2 - least));
    scale = ir::encode16(dtype, static_cast<float>(std::ldexp(fraction, exponent)));
  }
  row[kPlace] = ir::encode16(dtype, 1);
  const auto block_of = [](int n) { return size_t{kK / kBlock} * n + kPlace / kBlock; };
  const auto at_of = [](int n) { return size_t{kK} * n + kPlace; };
  for (int n = 0; n < kN; ++n) {
    zeros[block_of(n)] = static_cast<uint8_t>(n / 16);
    uint8_t& byte = codes[at_of(n) * bits / 8];
    if (bits == 4) byte = static_cast<uint8_t>((byte & 0x0f) | n % 16 << 4);  // the place is odd
  }
  const std::vector<float> out =
      product(GetParam(), row, {kN, kK, kBlock, codes.data(), scales.data(), zeros.data()});
  for (int n = 0; n < kN; ++n) {
    const uint8_t byte = codes[at_of(n) * bits / 8];
    const int code = bits == 4 ? byte >> 4 : byte, zero = zeros[block_of(n)];
    const float scale = ir::decode16(dtype, scales[block_of(n)]);
    const float weight = ir::decode16(dtype, ir::encode16(dtype, float(code - zero) * scale));
    ASSERT_EQ(out[static_cast<size_t>(n)], weight)
        << "code " << code << " less " << zero << " by " << scale;
  }
}

// Column 16 * scale + code has this code once, in any place, and codes of 0; the row of A is ones.
TEST_P(EmulatedMxFp4, EveryCodeAndScale) {
  constexpr int kCodes = 16, kScales = 256, kN = kCodes * kScales, kK = ir::kMxFp4Block;
  std::vector<uint8_t> codes(size_t{kN} * kK / 2), scales(kN);
  for (int n = 0; n < kN; ++n) {
    const int place = n * 7 % kK;
    codes[static_cast<size_t>(n * kK + place) / 2] =
        static_cast<uint8_t>(n % kCodes << (place % 2 * 4));
    scales[static_cast<size_t>(n)] = static_cast<uint8_t>(n / kCodes);
  }
  std::vector<uint16_t> ones(kK, static_cast<uint16_t>(ir::encode16(ir::DType::BF16, 1)));
  const std::vector<float> out =
      product(GetParam(), ones, {kN, kK, kK, codes.data(), scales.data(), nullptr});
  for (int n = 0; n < kN; ++n) {
    const auto weight = static_cast<float>(ir::mxfp4_value(n % kCodes, n / kCodes));
    const float expected =
        ir::decode16(ir::DType::BF16, static_cast<uint16_t>(ir::encode16(ir::DType::BF16, weight)));
    const float got = out[static_cast<size_t>(n)];
    ASSERT_TRUE(got == expected || (std::isnan(got) && std::isnan(expected)))
        << "code " << n % kCodes << " scale " << n / kCodes << ": " << got << ", not " << expected;
  }
}

// Those of one product whose results are f32.
std::vector<Kernel> kernels_of(bool floats) {
  std::vector<Kernel> all;
  for (const Kernel& each : kernels()) {
    const attacca_info info = each.record->info();
    if (info.code_bits > 0 && info.code_floats == floats && info.accumulators == 1 &&
        !info.gathered && info.result_bits[0] == 32)
      all.push_back(each);
  }
  return all;
}

ATTACCA_NEEDS_KERNELS(EmulatedCodes);
INSTANTIATE_TEST_SUITE_P(Templates, EmulatedCodes, ::testing::ValuesIn(kernels_of(false)),
                         [](const auto& test) { return test.param.record->entry.name; });
ATTACCA_NEEDS_KERNELS(EmulatedMxFp4);
INSTANTIATE_TEST_SUITE_P(Templates, EmulatedMxFp4, ::testing::ValuesIn(kernels_of(true)),
                         [](const auto& test) { return test.param.record->entry.name; });

}  // namespace
}  // namespace attacca::emulator
