// Conversions between memory and lanes, bit for bit with ir/graph/dtype.hpp.
#include <bit>
#include <cmath>
#include <random>
#include <vector>

#include "gtest/gtest.h"

#include "ir/graph/tensor.hpp"
#include "run/cpu/kernels/kernel.hpp"
#include "targets.hpp"

namespace attacca::run {
namespace {

using ir::DType;
using ir::Overflow;

constexpr DType kNarrowFloats[] = {DType::BF16, DType::F16, DType::F8E4M3, DType::F8E5M2};

float decode(DType dtype, uint32_t code) {
  return ir::size_of(dtype) == 2 ? ir::decode16(dtype, static_cast<uint16_t>(code))
                                 : ir::decode8(dtype, static_cast<uint8_t>(code));
}
uint32_t encode(DType dtype, float x) {
  return ir::size_of(dtype) == 2 ? ir::encode16(dtype, x) : ir::encode8(dtype, x);
}
bool same(float a, float b) {
  return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b) ||
         (std::isnan(a) && std::isnan(b));
}

// Every representable value of the dtype, its neighbours, the midpoints to the next value and
// theirs, and random bits.
std::vector<float> rounding_cases(DType dtype) {
  std::vector<float> cases;
  const uint32_t codes = 1u << (8 * ir::size_of(dtype));
  for (uint32_t code = 0; code < codes; ++code) {
    const float x = decode(dtype, code);
    const float next = decode(dtype, (code + 1) % codes);
    for (const float base : {x, static_cast<float>((static_cast<double>(x) + next) / 2)})
      for (const float y : {base, std::nextafter(base, INFINITY), std::nextafter(base, -INFINITY)})
        cases.push_back(y);
  }
  std::mt19937 random(1);
  for (int i = 0; i < 300'000; ++i)
    cases.push_back(std::bit_cast<float>(static_cast<uint32_t>(random())));
  return cases;
}

TEST(Convert, DecodesEveryNarrowFloat) {
  for_each_target([] {
    for (const DType dtype : kNarrowFloats) {
      const uint32_t codes = 1u << (8 * ir::size_of(dtype));
      std::vector<uint8_t> bytes;
      for (uint32_t code = 0; code < codes; ++code) {
        bytes.push_back(static_cast<uint8_t>(code));
        if (ir::size_of(dtype) == 2) bytes.push_back(static_cast<uint8_t>(code >> 8));
      }
      std::vector<float> lanes(codes);
      load_kernel(dtype)({.out = lanes.data(), .in = {bytes.data()}, .count = codes});
      for (uint32_t code = 0; code < codes; ++code)
        ASSERT_TRUE(same(lanes[code], decode(dtype, code))) << name(dtype) << " " << code;
    }
  });
}

TEST(Convert, RoundsToNearestEven) {
  for_each_target([] {
    for (const DType dtype : kNarrowFloats)
      for (const Overflow overflow : {Overflow::Ieee, Overflow::Saturate}) {
        const std::vector<float> cases = rounding_cases(dtype);
        std::vector<float> lanes(cases.size());
        round_kernel(dtype,
                     overflow)({.out = lanes.data(), .in = {cases.data()}, .count = cases.size()});
        for (size_t i = 0; i < cases.size(); ++i) {
          const auto want = static_cast<float>(ir::round_to(dtype, cases[i], overflow));
          ASSERT_TRUE(same(lanes[i], want)) << name(dtype) << " of " << std::hexfloat << cases[i];
        }
      }
  });
}

TEST(Convert, EncodesEveryNarrowFloat) {
  for_each_target([] {
    for (const DType dtype : kNarrowFloats) {
      const std::vector<float> cases = rounding_cases(dtype);
      const int64_t width = ir::size_of(dtype);
      std::vector<uint8_t> bytes(cases.size() * width);
      store_kernel(dtype)({.out = bytes.data(), .in = {cases.data()}, .count = cases.size()});
      for (size_t i = 0; i < cases.size(); ++i) {
        uint32_t got = bytes[i * width];
        if (width == 2) got |= static_cast<uint32_t>(bytes[i * 2 + 1]) << 8;
        const uint32_t want = encode(dtype, cases[i]);
        ASSERT_TRUE(got == want || (std::isnan(cases[i]) && std::isnan(decode(dtype, got))))
            << name(dtype) << " of " << std::hexfloat << cases[i] << ": " << got << " " << want;
      }
    }
  });
}

// Every byte, and so many that the last vector is not full.
TEST(Convert, LoadsAndStoresBytes) {
  constexpr size_t kCount = 256 + 3;
  std::vector<uint8_t> bytes(kCount);
  for (size_t i = 0; i < kCount; ++i) bytes[i] = static_cast<uint8_t>(i * 7);
  for_each_target([&] {
    for (const DType dtype : {DType::S8, DType::U8, DType::Bool}) {
      const ir::Tensor tensor = ir::Tensor::view(dtype, {kCount}, bytes.data());
      std::vector<int32_t> lanes(kCount);
      load_kernel(dtype)({.out = lanes.data(), .in = {bytes.data()}, .count = kCount});
      for (size_t i = 0; i < kCount; ++i) {
        ASSERT_EQ(lanes[i], tensor.integer_at(static_cast<int64_t>(i))) << name(dtype);
        lanes[i] += dtype == DType::Bool ? 0 : 1024;
      }
      std::vector<uint8_t> stored(kCount + 1, 0x5A);
      store_kernel(dtype)({.out = stored.data(), .in = {lanes.data()}, .count = kCount});
      for (size_t i = 0; i < kCount; ++i)
        ASSERT_EQ(stored[i], static_cast<uint8_t>(lanes[i])) << name(dtype);
      ASSERT_EQ(stored[kCount], 0x5A);
    }
  });
}

TEST(Convert, TurnsFloatsToIntegers) {
  std::vector<float> cases = rounding_cases(DType::F8E5M2);
  for (const float x : {127.5f, 128.0f, -128.9f, -129.0f, 255.0f, 256.0f, 0x1p31f, -0x1p31f, 3e9f,
                        0x1p40f, -0x1p63f, 0x1p63f, 1e30f, INFINITY, -INFINITY, NAN})
    cases.push_back(x);
  for_each_target([&] {
    for (const DType dtype : {DType::S8, DType::U8, DType::S32, DType::Bool})
      for (const Overflow overflow : {Overflow::Ieee, Overflow::Saturate}) {
        std::vector<int32_t> lanes(cases.size());
        float_to_int_kernel(
            dtype, overflow)({.out = lanes.data(), .in = {cases.data()}, .count = cases.size()});
        for (size_t i = 0; i < cases.size(); ++i)
          ASSERT_EQ(lanes[i], ir::to_integer(dtype, static_cast<double>(cases[i]), overflow))
              << name(dtype) << " of " << cases[i];
      }
  });
}

TEST(Convert, WrapsAndClampsIntegers) {
  std::vector<int32_t> cases;
  for (int i = -1000; i < 1000; ++i) cases.push_back(i);
  for (const int32_t x : {INT32_MIN, INT32_MAX, 65535, 65536, -65536}) cases.push_back(x);
  for_each_target([&] {
    for (const DType dtype : {DType::S8, DType::U8, DType::Bool})
      for (const Overflow overflow : {Overflow::Ieee, Overflow::Saturate}) {
        std::vector<int32_t> lanes(cases.size());
        wrap_kernel(dtype,
                    overflow)({.out = lanes.data(), .in = {cases.data()}, .count = cases.size()});
        for (size_t i = 0; i < cases.size(); ++i)
          ASSERT_EQ(lanes[i], ir::to_integer(dtype, int64_t{cases[i]}, overflow));
      }
  });
}

}  // namespace
}  // namespace attacca::run
