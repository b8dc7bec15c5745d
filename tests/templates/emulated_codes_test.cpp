// Emulated kernels whose weights are integers in codes: codes with zero points and scales of every
// size, as the op's definition rounds them.
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"

#include "ir/graph/dtype.hpp"
#include "templates/emulator/kernels.hpp"

namespace attacca::emulator {
namespace {

class EmulatedCodes : public ::testing::TestWithParam<Kernel> {};

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
  std::vector<float> out(kN);
  const int32_t end = 1;
  const auto block_of = [](int n) { return size_t{kK / kBlock} * n + kPlace / kBlock; };
  const auto at_of = [](int n) { return size_t{kK} * n + kPlace; };
  for (int n = 0; n < kN; ++n) {
    zeros[block_of(n)] = static_cast<uint8_t>(n / 16);
    uint8_t& byte = codes[at_of(n) * bits / 8];
    if (bits == 4) byte = static_cast<uint8_t>((byte & 0x0f) | n % 16 << 4);  // the place is odd
  }
  attacca_gemm_arguments g{};
  g.m = g.batch = g.groups = 1;
  g.n = kN;
  g.k = kK;
  g.sm_count = 2;
  g.a = {row.data(), kK, 1, 0};
  g.b = {codes.data(), 1, kK, int64_t{kN} * kK};
  g.codes.scales[0] = scales.data();
  g.codes.zeros[0] = zeros.data();
  g.codes.block = kBlock;
  g.codes.has_zeros = 1;
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
    const uint8_t byte = codes[at_of(n) * bits / 8];
    const int code = bits == 4 ? byte >> 4 : byte, zero = zeros[block_of(n)];
    const float scale = ir::decode16(dtype, scales[block_of(n)]);
    const float weight = ir::decode16(dtype, ir::encode16(dtype, float(code - zero) * scale));
    ASSERT_EQ(out[static_cast<size_t>(n)], weight)
        << "code " << code << " less " << zero << " by " << scale;
  }
}

// Those of one product whose results are f32.
std::vector<Kernel> code_kernels() {
  std::vector<Kernel> all;
  for (const Kernel& each : kernels()) {
    const attacca_info info = each.record->info();
    if (info.code_bits > 0 && !info.code_floats && info.accumulators == 1 && !info.gathered &&
        info.result_bits[0] == 32)
      all.push_back(each);
  }
  return all;
}

ATTACCA_NEEDS_KERNELS(EmulatedCodes);
INSTANTIATE_TEST_SUITE_P(Templates, EmulatedCodes, ::testing::ValuesIn(code_kernels()),
                         [](const auto& test) { return test.param.record->entry.name; });

}  // namespace
}  // namespace attacca::emulator
