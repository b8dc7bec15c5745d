// Single instructions against results worked out by hand, and roundings against the host's own.
#include "ptx_interpreter/alu.hpp"

#include <bit>
#include <cmath>
#include <random>

#include "gtest/gtest.h"

namespace attacca::ptx_interpreter {
namespace {

uint64_t f(float x) {
  return std::bit_cast<uint32_t>(x);
}
uint64_t d(double x) {
  return std::bit_cast<uint64_t>(x);
}
constexpr uint64_t kNan = 0x7FFFFFFF;

struct Case {
  const char* opcode;
  std::vector<uint64_t> sources;
  uint64_t result;
  uint32_t bits = 32;
};

TEST(Alu, ComputesWhatTheManualSays) {
  const std::vector<Case> cases = {
      {"add.s32", {0xFFFFFFFF, 2}, 1},
      {"sub.u64", {1, 2}, ~uint64_t{0}, 64},
      {"mul.lo.s32", {0x10000, 0x10000}, 0},
      {"mul.hi.u32", {0xFFFFFFFF, 0xFFFFFFFF}, 0xFFFFFFFE},
      {"mul.hi.s32", {0xFFFFFFFF, 0xFFFFFFFF}, 0},
      {"mul.hi.u64", {~uint64_t{0}, ~uint64_t{0}}, ~uint64_t{1}, 64},
      {"mul.wide.s32", {0xFFFFFFFF, 4}, ~uint64_t{3}, 64},
      {"mul.wide.u32", {0xFFFFFFFF, 4}, 0x3FFFFFFFC, 64},
      {"mad.lo.s32", {3, 4, 0xFFFFFFFF}, 11},
      {"mad.wide.u16", {0xFFFF, 2, 1}, 0x1FFFF, 32},
      {"div.s32", {0xFFFFFFF9, 2}, 0xFFFFFFFD},
      {"div.u32", {0xFFFFFFF9, 2}, 0x7FFFFFFC},
      {"rem.s32", {0xFFFFFFF9, 2}, 0xFFFFFFFF},
      {"shl.b32", {1, 32}, 0},
      {"shr.s32", {0x80000000, 40}, 0xFFFFFFFF},
      {"shr.u32", {0x80000000, 31}, 1},
      {"min.s32", {0xFFFFFFFF, 1}, 0xFFFFFFFF},
      {"min.u32", {0xFFFFFFFF, 1}, 1},
      {"abs.s32", {0xFFFFFFFB}, 5},
      {"not.b16", {0x00FF}, 0xFF00, 16},
      {"popc.b32", {0xF0F0}, 8},
      {"clz.b32", {1}, 31},
      {"brev.b32", {1}, 0x80000000},
      {"lop3.b32", {0xF0F0, 0xCCCC, 0xAAAA, 0x96}, 0xF0F0 ^ 0xCCCC ^ 0xAAAA},
      {"prmt.b32", {0x33221100, 0x77665544, 0x7531}, 0x77553311},
      {"prmt.b32", {0x00008000, 0, 0x9999}, 0xFFFFFFFF},
      {"dp4a.s32.s32", {0xFF02037F, 0x0480057F, 10}, 10 - 4 - 256 + 15 + 16129},
      {"shf.l.wrap.b32", {0x80000000, 1, 33}, 3},
      {"shf.r.clamp.b32", {0x80000000, 1, 40}, 1},
      {"bfe.u32", {0xABCD, 4, 8}, 0xBC},
      {"bfe.s32", {0x80, 4, 4}, 0xFFFFFFF8},
      {"bfi.b32", {0xF, 0, 8, 4}, 0xF00},
      {"selp.b32", {1, 2, 0}, 2},
      {"not.pred", {1}, 0, 1},
      {"add.f32", {f(1), f(0x1p-24f)}, f(1)},
      {"add.rp.f32", {f(1), f(0x1p-30f)}, f(1 + 0x1p-23f)},
      {"add.rm.f32", {f(-1), f(-0x1p-60f)}, f(-1 - 0x1p-23f)},
      {"fma.rn.f32", {f(1 + 0x1p-12f), f(1 + 0x1p-12f), f(-1)}, f(0x1p-11f + 0x1p-24f)},
      {"fma.rz.f32", {f(1), f(1), f(-0x1p-40f)}, f(1 - 0x1p-24f)},
      {"mul.ftz.f32", {f(0x1p-100f), f(0x1p-30f)}, 0},
      {"mul.rn.f32", {f(0x1p-100f), f(0x1p-30f)}, f(0x1p-130f)},
      {"add.f32", {f(INFINITY), f(-INFINITY)}, kNan},
      {"add.sat.f32", {f(1), f(1)}, f(1)},
      {"max.f32", {kNan, f(2)}, f(2)},
      {"max.NaN.f32", {kNan, f(2)}, kNan},
      {"min.f32", {f(0.0f), f(-0.0f)}, f(-0.0f)},
      {"neg.f32", {f(-0.0f)}, f(0)},
      {"abs.f64", {d(-2)}, d(2), 64},
      {"div.rn.f32", {f(1), f(3)}, f(1.0f / 3.0f)},
      {"sqrt.rn.f64", {d(2)}, d(std::sqrt(2.0)), 64},
      {"copysign.f64", {d(-1), d(3)}, d(-3), 64},
      {"ex2.approx.ftz.f32", {f(-3)}, f(0.125f)},
      {"mul.bf16x2", {0x3F803F80, 0xC0004000}, 0xC0004000},
      {"fma.rn.f16x2", {0x40003C00, 0x40003C00, 0x3C003C00}, 0x45004000},
      {"add.f16", {0x7BFF, 0x7BFF}, 0x7C00, 16},
      {"cvt.u32.u64", {0x1FFFFFFFF}, 0xFFFFFFFF},
      {"cvt.s64.s32", {0x80000000}, 0xFFFFFFFF80000000, 64},
      {"cvt.u32.u8", {0x1FF}, 0xFF},
      {"cvt.s32.s8", {0x80}, 0xFFFFFF80},
      {"cvt.sat.s8.s32", {300}, 127},
      {"cvt.rzi.s32.f32", {f(-1.9f)}, 0xFFFFFFFF},
      {"cvt.rni.s32.f32", {f(2.5f)}, 2},
      {"cvt.rmi.f32.f32", {f(-1.5f)}, f(-2)},
      {"cvt.rzi.u32.f32", {f(-5)}, 0},
      {"cvt.rzi.s32.f32", {f(1e20f)}, 0x7FFFFFFF},
      {"cvt.rzi.s32.f32", {kNan}, 0},
      {"cvt.rn.f32.s32", {0xFFFFFFFF}, f(-1)},
      {"cvt.rn.f32.u64", {0x8000008000000001}, f(0x1.000002p63f)},
      {"cvt.rz.f32.u32", {0xFFFFFFFF}, f(0x1.fffffep31f)},
      {"cvt.rn.f16.f32", {f(65520)}, 0x7C00, 16},
      {"cvt.rz.f16.f32", {f(65520)}, 0x7BFF, 16},
      {"cvt.rn.f16.f32", {f(0x1p-24f)}, 1, 16},
      {"cvt.rn.bf16.f32", {0x3F808000}, 0x3F80, 16},
      {"cvt.rn.bf16.f32", {0x3F818000}, 0x3F82, 16},
      {"cvt.rn.bf16x2.f32", {f(2), f(1)}, 0x40003F80},
      {"cvt.f32.f16", {0x0001}, f(0x1p-24f)},
      {"cvt.f32.bf16", {0xFF80}, f(-INFINITY)},
      {"cvt.f64.f32", {f(0.1f)}, d(0.1f), 64},
      {"cvt.rn.f32.f64", {d(0.1)}, f(0.1f)},
      {"cvt.sat.f32.f32", {f(7)}, f(1)},
  };
  for (const Case& each : cases) {
    const auto alu = find_alu(each.opcode);
    ASSERT_TRUE(alu) << each.opcode;
    ASSERT_EQ(alu->sources, each.sources.size()) << each.opcode;
    EXPECT_EQ(truncate(alu->compute(each.sources), each.bits), each.result) << each.opcode;
  }
}

TEST(Alu, UnknownFormsAreNone) {
  for (const char* opcode : {"frobnicate.f32", "add.f128", "add", "mul.s32", "add.mystery.f32",
                             "cvt.rn.e4m3x2.f32", "lop3.b64.x", "div.rz.f32", "tanh.f64", ""})
    EXPECT_FALSE(find_alu(opcode)) << opcode;
}

TEST(Comparisons, OrderedAndUnordered) {
  struct {
    const char* opcode;
    uint64_t x, y;
    bool holds;
  } const cases[] = {{"setp.lt.s32", 0xFFFFFFFF, 0, true},  {"setp.lt.u32", 0xFFFFFFFF, 0, false},
                     {"setp.hi.u32", 0xFFFFFFFF, 0, true},  {"setp.eq.f32", kNan, kNan, false},
                     {"setp.neu.f32", kNan, kNan, true},    {"setp.ne.f32", kNan, f(1), false},
                     {"setp.nan.f64", d(NAN), d(1), true},  {"setp.ge.f32", f(-0.0f), f(0), true},
                     {"setp.gtu.f64", d(1), d(NAN), true},  {"setp.eq.b16", 0x10001, 1, true},
                     {"setp.lt.bf16", 0xC000, 0x3F80, true}};
  for (const auto& each : cases) {
    const auto comparison = find_comparison(each.opcode);
    ASSERT_TRUE(comparison) << each.opcode;
    const uint64_t sources[] = {each.x, each.y};
    EXPECT_EQ(comparison->compute(sources).first, each.holds) << each.opcode;
    EXPECT_EQ(comparison->compute(sources).second, !each.holds) << each.opcode;
  }
  const auto combined = find_comparison("setp.lt.and.s32");
  const uint64_t sources[] = {1, 2, 0};
  EXPECT_EQ(combined->compute(sources), std::pair(false, false));
  EXPECT_FALSE(find_comparison("setp.equ.s32"));
}

// f32 results of the double arithmetic in alu.cpp against the host's f32 arithmetic, and narrower
// ones against long double.
TEST(Alu, RoundsOnce) {
  constexpr uint64_t kSeed = 7;
  std::mt19937_64 random(kSeed);
  const auto fma = find_alu("fma.rn.f32"), add = find_alu("add.f32"), half = find_alu("fma.rn.f16");
  for (int i = 0; i < 200'000; ++i) {
    const uint64_t bits[] = {truncate(random(), 32), truncate(random(), 32),
                             truncate(random(), 32)};
    const float x = std::bit_cast<float>(static_cast<uint32_t>(bits[0])),
                y = std::bit_cast<float>(static_cast<uint32_t>(bits[1])),
                z = std::bit_cast<float>(static_cast<uint32_t>(bits[2]));
    if (std::isnan(std::fma(x, y, z)) || std::isnan(x + y)) continue;
    ASSERT_EQ(fma->compute(bits), f(std::fma(x, y, z))) << "seed " << kSeed;
    ASSERT_EQ(add->compute(std::span(bits).first(2)), f(x + y)) << "seed " << kSeed;
    const uint64_t halves[] = {bits[0] >> 16, bits[1] >> 16, bits[2] >> 16};
    const auto exact = static_cast<long double>(decode(halves[0], kF16)) * decode(halves[1], kF16) +
                       decode(halves[2], kF16);
    if (std::isnan(exact)) continue;
    // Rounding a long double of 64 bits to odd first needs no more than its last bits.
    const auto nearest = static_cast<double>(exact);
    if (static_cast<long double>(nearest) != exact) continue;
    ASSERT_EQ(half->compute(halves), encode(nearest, kF16)) << "seed " << kSeed;
  }
}

TEST(Numbers, EveryHalfSurvives) {
  for (const Format format : {kF16, kBf16})
    for (uint64_t bits = 0; bits < 0x10000; ++bits) {
      const double value = decode(bits, format);
      if (std::isnan(value)) continue;
      ASSERT_EQ(encode(value, format), bits);
      ASSERT_EQ(encode(value, format, Rounding::Up), bits);
    }
}

}  // namespace
}  // namespace attacca::ptx_interpreter
