// Every eligible kernel with its epilogue: assembled, and on the interpreter bit for bit what the
// kernel followed by the epilogue gives.
#include "kernels/fused.hpp"

#include <cmath>

#include "fmt/format.h"
#include "gtest/gtest.h"

#include "gpu/compile/assemble.hpp"
#include "ir/interpret/last_place.hpp"
#include "kernels/interpreted.hpp"

namespace attacca::kernels {
namespace {

using ir::Tensor;

// Empty, or how the fused kernel differs from the kernel and then the epilogue.
std::string compare_with_unfused(const Kernel& kernel, const Fused& fused, uint64_t seed,
                                 bool special, size_t shift) {
  const auto after = ptx::parse(fused.ptx, "fused");
  if (!after) return to_string(after.error());
  const auto arguments = make_arguments(kernel, seed, special);
  if (!arguments) return to_string(arguments.error());
  const std::vector<Tensor> operands = operand_tensors(kernel, fused.tail, seed + 100, special);

  const auto alone = run_interpreted(*module_of(kernel.file), kernel, *arguments, std::byte{0xFF});
  const auto joined = run_interpreted(*after, kernel, *arguments, std::byte{0xAA}, operands, shift);
  return compare_with_epilogue(kernel, fused.tail, alone, joined, arguments->output, operands);
}

struct FusedKernel : testing::TestWithParam<Kernel> {};

TEST_P(FusedKernel, IsTheKernelThenTheEpilogue) {
  const Kernel& kernel = GetParam();
  const auto fused = fuse(kernel);
  ASSERT_TRUE(fused) << to_string(fused.error());
  EXPECT_GT(fused->stores, 0u);
  for (const bool special : {false, true})
    EXPECT_EQ(compare_with_unfused(kernel, *fused, special ? 7 : 3, special, 0), "")
        << kernel.epilogue << (special ? ", special numbers" : "");
  // Operands may have any alignment: reads of several elements at once must check it.
  for (const size_t shift : {1, 2})
    EXPECT_EQ(compare_with_unfused(kernel, *fused, 4, false, shift), "") << "shifted by " << shift;
}

// fp32 mode rounds less than the ops one by one: its error may not exceed theirs, but for a few
// last places of the fast functions.
TEST_P(FusedKernel, InFp32ModeIsNoWorseThanTheOpsOneByOne) {
  const Kernel& kernel = GetParam();
  if (!ir::is_float(kernel.dtype)) return;  // nothing is rounded
  const auto fused = fuse(kernel, ir::Mode::Fp32);
  ASSERT_TRUE(fused) << to_string(fused.error());
  const auto arguments = make_arguments(kernel, 21, false);
  const auto module = ptx::parse(fused->ptx, "fused");
  ASSERT_TRUE(arguments && module);
  const auto operands = operand_tensors(kernel, fused->tail, 121, false);
  const auto alone = run_interpreted(*module_of(kernel.file), kernel, *arguments, std::byte{0});
  const auto joined = run_interpreted(*module, kernel, *arguments, std::byte{0xFF}, operands);
  ASSERT_TRUE(alone) << to_string(alone.error());
  ASSERT_TRUE(joined) << to_string(joined.error());
  const Tensor &stored = (*alone)[arguments->output], &got = (*joined)[arguments->output];
  const auto exact = apply_epilogue(kernel, fused->tail, stored, operands, ir::Precision::Exact);
  const auto eager = apply_epilogue(kernel, fused->tail, stored, operands);
  ASSERT_TRUE(exact && eager);
  const double slack = (kernel.dtype == ir::DType::F32 ? 8 : 0.5) * ir::last_place(kernel.dtype);
  for (int64_t i = 0; i < got.size(); ++i) {
    const double want = exact->number_at(i);
    if (std::isnan(want) && std::isnan(got.number_at(i))) continue;
    const double allowed = std::abs(eager->number_at(i) - want) + slack * (std::abs(want) + 1e-3);
    ASSERT_LE(std::abs(got.number_at(i) - want), allowed)
        << "element " << i << " is " << got.number_at(i) << ", exactly " << want;
  }
}

size_t count_contractible(const std::string& ptx) {
  const auto module = ptx::parse(ptx);
  size_t count = 0;
  for (const ptx::Token& token : module->tokens)
    for (const std::string_view opcode : {"add.f32", "sub.f32", "mul.f32", "add.f64", "sub.f64",
                                          "mul.f64", "add.ftz.f32", "mul.ftz.f32"})
      count += token.text() == opcode;
  return count;
}

// ptxas may make one fma of a mul and an add without a rounding: the epilogue brings neither.
TEST_P(FusedKernel, BringsNothingToContract) {
  const auto fused = fuse(GetParam());
  ASSERT_TRUE(fused) << to_string(fused.error());
  // A function that stores is copied for the calls with another pointer.
  const std::string_view entry = GetParam().entry;
  const bool is_copied = entry == "noinline_helper" || entry == "shared_helpers";
  const size_t copies = is_copied ? 2 : 1;
  EXPECT_EQ(count_contractible(fused->ptx), copies * count_contractible(text_of(GetParam())));
}

TEST_P(FusedKernel, Assembles) {
  const auto fused = fuse(GetParam());
  ASSERT_TRUE(fused) << to_string(fused.error());
  const auto image = gpu::assemble(fused->ptx, "sm_90a");
  EXPECT_TRUE(image) << to_string(image.error());
}

INSTANTIATE_TEST_SUITE_P(Table, FusedKernel, testing::ValuesIn(eligible_kernels()),
                         [](const auto& info) { return test_name(info.param); });

}  // namespace
}  // namespace attacca::kernels
