// Kernels whose output is an attacca::Out, filled and run on the interpreter: bit for bit the
// kernel filled with nothing, then the epilogue.
#include <cstring>

#include "gtest/gtest.h"

#include "gpu/compile/assemble.hpp"
#include "gpu/kernel/out_pointer.hpp"
#include "kernels/fused.hpp"
#include "kernels/interpreted.hpp"

namespace attacca::kernels {
namespace {

using ir::DType;
using ir::Tensor;

// The struct in the parameters is an Out: where the output begins, the offset of 0, four operands.
const Kernel kKernels[] = {
    {.file = "out",
     .entry = "out_elements",
     .dtype = DType::F32,
     .grid = {3},
     .block = {32},
     .parameters = "f32[80] {out s64:0 f32[10] f32[8*10] s64:0 s64:0} s32:80",
     .rows = 8,
     .columns = 10,
     .epilogue = "silu(out + row(bias)) * full(res)"},
    {.file = "out",
     .entry = "out_travels",
     .dtype = DType::BF16,
     .grid = {3},
     .block = {32},
     .parameters = "bf16[80] {out s64:0 bf16[8] s64:0 s64:0 s64:0} s32:80",
     .rows = 8,
     .columns = 10,
     .epilogue = "gelu(out) * col(scale)"},
    {.file = "out",
     .entry = "out_walks",
     .dtype = DType::F32,
     .grid = {6},
     .block = {2},
     .parameters = "f32[60] {out s64:0 f32[10] f32[6] f32[60] f32[1]} s32:10",
     .rows = 6,
     .columns = 10,
     .epilogue = "(out * row(gain) + col(shift)) * full(res) - scalar(zero)"},
    {.file = "out",
     .entry = "out_vectors",
     .dtype = DType::F32,
     .grid = {1},
     .block = {32},
     .parameters = "f32[80] {out s64:0 s64:0 s64:0 s64:0 s64:0} s32:80",
     .rows = 8,
     .columns = 10,
     .epilogue = "relu(out)"},
    {.file = "out",
     .entry = "out_doubles",
     .dtype = DType::F64,
     .grid = {3},
     .block = {32},
     .parameters = "f64[80] {out s64:0 f64[80] s64:0 s64:0 s64:0} s32:80",
     .rows = 8,
     .columns = 10,
     .epilogue = "out * full(res)"},
};

Result<gpu::Tail> tail_of(const Kernel& kernel, std::string_view epilogue) {
  gpu::TailRequest request;
  request.epilogue = epilogue;
  request.dtype = request.result = kernel.dtype;
  request.rows = kernel.rows;
  request.columns = kernel.columns;
  return gpu::emit_tail(request);
}

struct Filled {
  std::vector<Tensor> buffers;  // after the run
  gpu::Tail tail;
};

Result<Filled> run_filled(const Kernel& kernel, std::string_view epilogue,
                          const Arguments& arguments) {
  ATTACCA_TRY(const ptx::Module open, ptx::parse(text_of(kernel), to_string(kernel)));
  const auto bytes = static_cast<uint32_t>(ir::size_of(kernel.dtype));
  Filled filled;
  ATTACCA_TRY(filled.tail, tail_of(kernel, epilogue));
  ATTACCA_TRY(const ptx::Spliced spliced, gpu::fill_output(open, bytes, filled.tail));
  EXPECT_GT(spliced.calls, 0u);
  const auto image = gpu::assemble(spliced.ptx, "sm_90a");
  EXPECT_TRUE(image) << to_string(image.error());
  ATTACCA_TRY(const ptx::Module closed, ptx::parse(spliced.ptx, "filled"));
  EXPECT_EQ(gpu::open_output(closed, bytes), "");
  ATTACCA_TRY(filled.buffers, run_interpreted(closed, kernel, arguments, std::byte{0xAB}));
  return filled;
}

// The operands that the Out carries are the buffers behind the output.
std::vector<Tensor> operands_in(const Kernel& kernel, const Arguments& arguments,
                                const gpu::Tail& tail) {
  std::vector<Tensor> operands = operand_tensors(kernel, tail, 0, false);
  for (size_t i = 0; i < operands.size(); ++i)
    std::ranges::copy(bytes_of(arguments.buffers[arguments.output + 1 + i]),
                      bytes_of(operands[i]).begin());
  return operands;
}

struct OutKernel : testing::TestWithParam<Kernel> {};

TEST_P(OutKernel, AppliesItsEpilogueOnAssignment) {
  const Kernel& kernel = GetParam();
  const auto arguments = make_arguments(kernel, 5, false);
  ASSERT_TRUE(arguments) << to_string(arguments.error());
  const auto plain = run_filled(kernel, "out", *arguments);
  const auto filled = run_filled(kernel, kernel.epilogue, *arguments);
  ASSERT_TRUE(plain) << to_string(plain.error());
  ASSERT_TRUE(filled) << to_string(filled.error());
  const auto want = apply_epilogue(kernel, filled->tail, plain->buffers[arguments->output],
                                   operands_in(kernel, *arguments, filled->tail));
  ASSERT_TRUE(want) << to_string(want.error());
  EXPECT_EQ(compare_elements(filled->buffers[arguments->output], *want), "");
}

INSTANTIATE_TEST_SUITE_P(Table, OutKernel, testing::ValuesIn(kKernels),
                         [](const auto& info) { return std::string(info.param.entry); });

TEST(OutPointer, WhatCannotBeFilledIsAnError) {
  const Kernel& kernel = kKernels[0];
  const auto open = ptx::parse(text_of(kernel), "open");
  ASSERT_TRUE(open);
  const auto many = tail_of(kernel, "out + row(a) + row(b) + row(c) + row(d) + row(e)");
  ASSERT_TRUE(many) << to_string(many.error());
  EXPECT_EQ(gpu::fill_output(*open, 4, *many).error().what,
            "the epilogue has 5 operands, and attacca::Out carries 4");
  const auto tail = tail_of(kernel, "relu(out)");
  const auto closed = module_of("gemm");
  EXPECT_EQ(gpu::fill_output(*closed, 4, *tail).error().what,
            "the kernel calls no hole of attacca::Out");
}

}  // namespace
}  // namespace attacca::kernels
