// Panels: which implementation oneDNN takes, for every kind and shape.
#include "run/cpu/gemm.hpp"

#include "gtest/gtest.h"

#include "ir/graph/tensor.hpp"

namespace attacca::run {
namespace {

TEST(Gemm, NeverTakesAReferenceImplementation) {
  for (const GemmKind kind :
       {choose_gemm(ir::DType::F32, ir::DType::F32, ir::DType::F32),
        choose_gemm(ir::DType::BF16, ir::DType::BF16, ir::DType::F32),
        choose_gemm(ir::DType::S8, ir::DType::S8, ir::DType::S32),
        choose_gemm(ir::DType::U8, ir::DType::S8, ir::DType::S32), GemmKind::Integers})
    for (const int64_t k : {1, 3, 16, 100, 1000})
      for (const int64_t n : {1, 2, 17, 64, 300})
        for (const int64_t rows : {1, 2, 31, 128}) {
          const PackedMatrix packed(kind, k, n);
          EXPECT_EQ(packed.implementation(rows).find("ref"), std::string::npos)
              << static_cast<int>(kind) << " " << rows << "x" << n << "x" << k;
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
    std::vector<int32_t> got(m * n);
    packed.multiply(left, m, 0, reinterpret_cast<std::byte*>(got.data()));
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j) {
        int32_t want = 0;
        for (int64_t l = 0; l < k; ++l) want += a[i * k + l] * b[l * n + j];
        ASSERT_EQ(got[i * n + j], want) << i << " " << j;
      }
  }
}

}  // namespace
}  // namespace attacca::run
