// Emulated kernels whose weights are in MXFP4: every code with every scale, as the op's definition
// rounds it, subnormal, infinite or NaN.
#include <bit>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "gtest/gtest.h"

#include "ir/graph/dtype.hpp"
#include "ir/interpret/mxfp4.hpp"
#include "templates/emulator/kernels.hpp"

namespace attacca::emulator {
namespace {

constexpr int kCodes = 16, kScales = 256;

class EmulatedMxFp4 : public ::testing::TestWithParam<Kernel> {};

// Column 16 * scale + code has this code once, in any place, and codes of 0; the row of A is ones.
TEST_P(EmulatedMxFp4, EveryCodeAndScale) {
  const attacca_info info = GetParam().record->info();
  constexpr int kN = kCodes * kScales, kK = ir::kMxFp4Block;
  std::vector<uint8_t> codes(size_t{kN} * kK / 2), scales(kN);
  for (int n = 0; n < kN; ++n) {
    const int place = n * 7 % kK;
    codes[static_cast<size_t>(n * kK + place) / 2] =
        static_cast<uint8_t>(n % kCodes << (place % 2 * 4));
    scales[static_cast<size_t>(n)] = static_cast<uint8_t>(n / kCodes);
  }
  std::vector<uint16_t> ones(kK, static_cast<uint16_t>(ir::encode16(ir::DType::BF16, 1)));
  std::vector<float> out(kN);
  const int32_t end = 1;
  attacca_gemm_arguments g{};
  g.m = g.batch = g.groups = 1;
  g.n = kN;
  g.k = kK;
  g.sm_count = 2;
  g.a = {ones.data(), kK, 1, 0};
  g.b = {codes.data(), 1, kK, int64_t{kN} * kK};
  g.codes.scales[0] = scales.data();
  g.codes.block = kK;
  g.result[0] = {out.data(), kN, 1, 0};
  g.group_ends = &end;
  g.group_stride = 1;
  g.context.rows = g.context.batches = 1;
  g.context.columns = kN;
  alignas(64) static char params[4096];
  char reason[256] = "";
  Launch how;
  const attacca_template_entry& entry = GetParam().record->entry;
  ASSERT_EQ(entry.build(&g, params, how.grid, reason, sizeof reason), 0) << reason;
  how.threads = info.threads;
  how.shared_bytes = info.shared_bytes;
  how.cluster = 1;
  how.seed = 3;
  accumulators_alone = true;
  GetParam().run(how, params);
  accumulators_alone = false;
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
std::vector<Kernel> mxfp4_kernels() {
  std::vector<Kernel> all;
  for (const Kernel& each : kernels()) {
    const attacca_info info = each.record->info();
    if (info.code_floats && info.accumulators == 1 && !info.gathered && info.result_bits[0] == 32)
      all.push_back(each);
  }
  return all;
}

ATTACCA_NEEDS_KERNELS(EmulatedMxFp4);
INSTANTIATE_TEST_SUITE_P(Templates, EmulatedMxFp4, ::testing::ValuesIn(mxfp4_kernels()),
                         [](const auto& test) { return test.param.record->entry.name; });

}  // namespace
}  // namespace attacca::emulator
