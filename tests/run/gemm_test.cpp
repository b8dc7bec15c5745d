// Panels: which implementation oneDNN takes, for every kind and shape.
#include "run/cpu/gemm.hpp"

#include <cstring>
#include <random>

#include "gtest/gtest.h"

#include "ir/graph/tensor.hpp"

namespace attacca::run {
namespace {

TEST(Gemm, NeverTakesAReferenceImplementation) {
  for (const GemmKind kind :
       {choose_gemm(ir::DType::F32, ir::DType::F32, ir::DType::F32),
        choose_gemm(ir::DType::BF16, ir::DType::BF16, ir::DType::F32),
        choose_gemm(ir::DType::S8, ir::DType::S8, ir::DType::S32),
        choose_gemm(ir::DType::U8, ir::DType::S8, ir::DType::S32),
        choose_gemm(ir::DType::U8, ir::DType::U8, ir::DType::S32),
        choose_gemm(ir::DType::S8, ir::DType::U8, ir::DType::S32), GemmKind::Integers})
    for (const int64_t k : {1, 3, 16, 100, 1000})
      for (const int64_t n : {1, 2, 17, 64, 300})
        for (const int64_t rows : {1, 2, 31, 128}) {
          const PackedMatrix packed(kind, k, n);
          EXPECT_EQ(packed.implementation(rows).find("ref"), std::string::npos)
              << static_cast<int>(kind) << " " << rows << "x" << n << "x" << k;
        }
}

// A row's bits do not depend on the number of rows nor on the row's place among them.
TEST(Gemm, FixedPanelsGiveARowTheSameBits) {
  std::mt19937 random(5);
  std::normal_distribution<float> normal;
  for (const int64_t k : {1, 7, 64, 333, 1001})
    for (const int64_t n : {1, 3, 16, 70, 256}) {
      const int64_t most = 130;
      std::vector<float> a(most * k), b(k * n), whole(most * n);
      for (float& x : a) x = normal(random);
      for (float& x : b) x = normal(random);
      PackedMatrix packed(GemmKind::F32, k, n);
      packed.pack_block({reinterpret_cast<std::byte*>(b.data()), ir::DType::F32, k, n, n, 1}, 0);
      const auto multiply = [&](int64_t first, int64_t rows, std::vector<float>& out) {
        packed.multiply(reinterpret_cast<std::byte*>(a.data() + first * k), rows, 0,
                        reinterpret_cast<std::byte*>(out.data()), Panels::Fixed);
      };
      multiply(0, most, whole);
      for (int64_t i = 0; i < most; ++i) {
        double want = 0;
        for (int64_t l = 0; l < k; ++l) want += double(a[i * k + l]) * double(b[l * n + n - 1]);
        ASSERT_NEAR(whole[i * n + n - 1], want, 1e-5 * double(k));
      }
      for (const int64_t rows : {1, 2, 5, 6, 7, 23, 24, 25, 47, 49, 64, 128})
        for (const int64_t first : {int64_t{0}, int64_t{1}, most - rows}) {
          std::vector<float> part(rows * n);
          multiply(first, rows, part);
          ASSERT_EQ(std::memcmp(part.data(), whole.data() + first * n, part.size() * 4), 0)
              << rows << " rows from " << first << ", " << n << " x " << k;
        }
    }
}

// s8 and u8 products are exact whatever the machine: the fallback agrees with the native kernels.
TEST(Gemm, SumsBytesExactly) {
  const int64_t m = 5, n = 70, k = 1000;
  std::vector<int8_t> a(m * k), b(k * n);
  for (size_t i = 0; i < a.size(); ++i) a[i] = static_cast<int8_t>(i % 3 == 0 ? -128 : 127);
  for (size_t i = 0; i < b.size(); ++i) b[i] = static_cast<int8_t>(i % 5 == 0 ? 127 : -128);
  const MatrixView right{reinterpret_cast<std::byte*>(b.data()), ir::DType::S8, k, n, n, 1};
  std::vector<float> wide(a.begin(), a.end());
  for (const GemmKind kind :
       {choose_gemm(ir::DType::S8, ir::DType::S8, ir::DType::S32), GemmKind::Integers}) {
    PackedMatrix packed(kind, k, n);
    for (int64_t block = 0; block < packed.blocks(); ++block) packed.pack_block(right, block);
    const bool native = a_dtype(kind) == ir::DType::S8;
    const auto* left = native ? reinterpret_cast<const std::byte*>(a.data())
                              : reinterpret_cast<const std::byte*>(wide.data());
    std::vector<int32_t> got(m * n), small(m * n);
    packed.multiply(left, m, 0, reinterpret_cast<std::byte*>(got.data()));
    const MatrixView plain{reinterpret_cast<std::byte*>(a.data()), ir::DType::S8, m, k, k, 1};
    multiply_small(kind, plain, right, reinterpret_cast<std::byte*>(small.data()));
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j) {
        int32_t want = 0;
        for (int64_t l = 0; l < k; ++l) want += a[i * k + l] * b[l * n + j];
        ASSERT_EQ(got[i * n + j], want) << i << " " << j;
        ASSERT_EQ(small[i * n + j], want) << i << " " << j;
      }
  }
}

// Bytes of either sign, row- and column-major, with rows for which oneDNN pads, and sums that f32
// does not hold or that wrap.
TEST(Gemm, SumsOfBytesAreExactModulo32Bits) {
  constexpr int64_t n = 70;
  const auto value = [](ir::DType dtype, uint8_t byte) {
    return dtype == ir::DType::U8 ? int32_t{byte} : int32_t{static_cast<int8_t>(byte)};
  };
  std::mt19937 random(20261130);
  for (const auto& [m, k] : {std::pair<int64_t, int64_t>{37, 130}, {37, 1041}, {5, 70000}})
    for (const ir::DType left : {ir::DType::U8, ir::DType::S8})
      for (const ir::DType right : {ir::DType::U8, ir::DType::S8})
        for (const bool column_major : {false, true}) {
          const GemmKind kind = choose_gemm(left, right, ir::DType::S32);
          if (kind == GemmKind::Integers) continue;  // without VNNI
          // Large numbers, one row of small ones and one of each sign.
          std::vector<uint8_t> a(m * k), b(k * n);
          const uint32_t largest = left == ir::DType::U8 ? 255 : 127;
          for (uint8_t& x : a) x = static_cast<uint8_t>(largest - random() % 4);
          for (int64_t l = 0; l < k; ++l) a[l] = 1, a[k + l] = static_cast<uint8_t>(random());
          for (uint8_t& x : b) x = static_cast<uint8_t>(random() % 3 ? 127 : random());
          const MatrixView view{reinterpret_cast<std::byte*>(b.data()),
                                right,
                                k,
                                n,
                                column_major ? 1 : n,
                                column_major ? k : 1};
          PackedMatrix packed(kind, k, n);
          packed.pack_block(view, 0);
          std::vector<int32_t> got(m * n);
          packed.multiply(reinterpret_cast<std::byte*>(a.data()), m, 0,
                          reinterpret_cast<std::byte*>(got.data()));
          for (int64_t i = 0; i < m; ++i)
            for (int64_t j = 0; j < n; ++j) {
              int64_t want = 0;
              for (int64_t l = 0; l < k; ++l)
                want += int64_t{value(left, a[i * k + l])} *
                        value(right, column_major ? b[j * k + l] : b[l * n + j]);
              ASSERT_EQ(got[i * n + j], static_cast<int32_t>(want))
                  << k << " " << i << " " << j << " " << column_major;
            }
        }
}

// Small whole numbers: every kind is exact, whatever the operands' dtypes and strides.
TEST(Gemm, MultipliesSmallMatricesAsTheyLie) {
  const int64_t m = 3, n = 5, k = 7;
  using ir::DType;
  for (const auto& [a_type, b_type, sums] : {std::tuple{DType::F32, DType::F32, DType::F32},
                                             {DType::BF16, DType::BF16, DType::F32},
                                             {DType::F16, DType::F32, DType::F32},
                                             {DType::F64, DType::F64, DType::F64},
                                             {DType::U8, DType::S8, DType::S32},
                                             {DType::U8, DType::U8, DType::S32}})
    for (const bool transposed : {false, true}) {
      const int64_t gap = 2;  // between columns, or between rows
      ir::Tensor a = *ir::Tensor::make(a_type, {k * m * 4}),
                 b = *ir::Tensor::make(b_type, {k * n * 4});
      const MatrixView left{
          a.data(), a_type, m, k, transposed ? 1 : k + gap, transposed ? m + gap : 1};
      const MatrixView right{
          b.data(), b_type, k, n, transposed ? 1 : gap * n, transposed ? k : gap};
      const auto at = [](const MatrixView& view, int64_t row, int64_t column) {
        return row * view.row_stride + column * view.column_stride;
      };
      for (int64_t i = 0; i < a.size(); ++i) a.set_number(i, static_cast<double>(i * 5 % 11));
      for (int64_t i = 0; i < b.size(); ++i) b.set_number(i, static_cast<double>(i * 3 % 13));
      ir::Tensor got = *ir::Tensor::make(sums, {m, n});
      multiply_small(choose_gemm(a_type, b_type, sums), left, right, got.data());
      for (int64_t i = 0; i < m; ++i)
        for (int64_t j = 0; j < n; ++j) {
          double want = 0;
          for (int64_t l = 0; l < k; ++l)
            want += a.number_at(at(left, i, l)) * b.number_at(at(right, l, j));
          ASSERT_EQ(got.number_at(i * n + j), want)
              << name(a_type) << " " << name(b_type) << " " << i << " " << j;
        }
    }
}

}  // namespace
}  // namespace attacca::run
