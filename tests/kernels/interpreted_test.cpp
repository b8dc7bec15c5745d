// The table's kernels as nvcc compiled them, without any epilogue, on the interpreter: they run,
// write every element of their output and never read it; products equal a plain loop's.
#include "kernels/interpreted.hpp"

#include <cmath>
#include <set>

#include "gtest/gtest.h"

namespace attacca::kernels {
namespace {

using ir::Tensor;

TEST(UserKernels, EveryKernelIsInTheTable) {
  std::set<std::pair<std::string_view, std::string_view>> listed;
  std::set<std::string_view> files;
  size_t eligible = 0;
  for (const Kernel& kernel : all_kernels()) {
    listed.insert({kernel.file, kernel.entry});
    files.insert(kernel.file);
    eligible += kernel.eligible;
  }
  EXPECT_GE(all_kernels().size(), 45u);
  EXPECT_GE(eligible, 27u);
  for (const std::string_view file : files) {
    const auto module = module_of(file);
    for (const ptx::Item& item : module->items) {
      const auto* function = std::get_if<ptx::Function>(&item);
      if (function == nullptr || !function->is_entry) continue;
      EXPECT_EQ(listed.erase({file, function->name}), 1u) << file << "." << function->name;
    }
  }
  for (const auto& [file, entry] : listed) ADD_FAILURE() << file << ".cu has no kernel " << entry;
}

struct EligibleKernel : testing::TestWithParam<Kernel> {};

TEST_P(EligibleKernel, WritesItsWholeOutputAndNeverReadsIt) {
  const Kernel& kernel = GetParam();
  const auto module = module_of(kernel.file);
  for (const bool special : {false, true}) {
    const auto arguments = make_arguments(kernel, 1, special);
    ASSERT_TRUE(arguments) << to_string(arguments.error());
    const auto ones = run_interpreted(*module, kernel, *arguments, std::byte{0xFF});
    const auto zeros = run_interpreted(*module, kernel, *arguments, std::byte{0x00});
    ASSERT_TRUE(ones) << to_string(ones.error());
    ASSERT_TRUE(zeros) << to_string(zeros.error());
    for (size_t i = 0; i < ones->size(); ++i)
      EXPECT_TRUE(std::ranges::equal(bytes_of((*ones)[i]), bytes_of((*zeros)[i])))
          << "buffer " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Table, EligibleKernel, testing::ValuesIn(eligible_kernels()),
                         [](const auto& info) { return test_name(info.param); });

// C = A B of row-major operands: the first two buffers.
TEST(UserKernels, ProductsAreThoseOfAPlainLoop) {
  int products = 0;
  for (const Kernel& kernel : eligible_kernels()) {
    if (kernel.entry.find("gemm") == std::string_view::npos &&
        kernel.entry.find("register_tiled") == std::string_view::npos &&
        kernel.entry != "matmul_kernel")
      continue;
    ++products;
    const auto arguments = make_arguments(kernel, 2, false);
    ASSERT_TRUE(arguments) << to_string(arguments.error());
    const auto after = run_interpreted(*module_of(kernel.file), kernel, *arguments, std::byte{0});
    ASSERT_TRUE(after) << to_string(after.error());
    const Tensor &a = (*after)[0], &b = (*after)[1], &c = (*after)[2];
    const int64_t depth = a.size() / kernel.rows;
    const double alpha = kernel.entry == "scaled_gemm" ? 0.3 : 1;
    for (int64_t row = 0; row < kernel.rows; ++row)
      for (int64_t column = 0; column < kernel.columns; ++column) {
        double sum = 0;
        for (int64_t i = 0; i < depth; ++i)
          sum += a.number_at(row * depth + i) * b.number_at(i * kernel.columns + column);
        ASSERT_NEAR(c.number_at(row * kernel.columns + column), alpha * sum,
                    kernel.dtype == ir::DType::F32 ? 1e-5 : 0.02 + 0.01 * std::abs(sum))
            << to_string(kernel) << " at " << row << ", " << column;
      }
  }
  EXPECT_EQ(products, 9);
}

}  // namespace
}  // namespace attacca::kernels
