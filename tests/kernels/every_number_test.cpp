// Ops of 16 bits in eager mode, as NVRTC compiled them, with approximate instructions that make no
// error. tests/epilogue has the largest errors, tests/device a GPU's.
#include "kernels/every_number.hpp"

#include "gtest/gtest.h"

#include "kernels/fused.hpp"
#include "kernels/interpreted.hpp"

namespace attacca::kernels {
namespace {

// The sanitizers take too long for all.
#if defined(__SANITIZE_ADDRESS__)
constexpr uint32_t kParts = 1;
#else
constexpr uint32_t kParts = kNumberParts;
#endif

struct NarrowOp : testing::TestWithParam<std::tuple<std::string_view, ir::DType>> {};

TEST_P(NarrowOp, HasTheInterpretersBitsOfEveryNumber) {
  const auto& [op, dtype] = GetParam();
  for (uint32_t part = 0; part < kParts; ++part) {
    const auto numbers = number_part(dtype, op, part);
    ASSERT_TRUE(numbers) << to_string(numbers.error());
    const auto& [kernel, arguments] = *numbers;
    const auto fused = fuse(kernel);
    ASSERT_TRUE(fused) << to_string(fused.error());
    const auto joined = ptx::parse(fused->ptx, "fused");
    ASSERT_TRUE(joined) << to_string(joined.error());
    const auto operands = operand_tensors(kernel, fused->tail, 5, false);
    EXPECT_EQ(compare_with_epilogue(
                  kernel, fused->tail,
                  run_interpreted(*module_of(kernel.file), kernel, arguments, std::byte{0xFF}),
                  run_interpreted(*joined, kernel, arguments, std::byte{0xAA}, operands),
                  arguments.output, operands),
              "");
  }
}

INSTANTIATE_TEST_SUITE_P(Each, NarrowOp,
                         testing::Combine(testing::ValuesIn(kNarrowOps),
                                          testing::Values(ir::DType::BF16, ir::DType::F16)),
                         [](const auto& info) {
                           return narrow_op_name(std::get<0>(info.param), std::get<1>(info.param));
                         });

}  // namespace
}  // namespace attacca::kernels
