// One launch for several problems: real templates with an epilogue, on the PTX interpreter, against
// sums in f64; and what of a kernel's PTX is refused.
#include "fmt/format.h"
#include "gtest/gtest.h"

#include "gpu/compile/assemble.hpp"
#include "gpu/several_kernels.hpp"

namespace attacca::gpu {
namespace {

constexpr std::string_view kTail = "silu(acc + row(bias: bf16))";

// silu(A x B + bias), with B as (n, k), in memory that is poisoned before.
struct Problem {
  int m = 0, n = 0, k = 0;
  Numbers a, b, bias;
  uint64_t result = 0;

  Problem(Memory& memory, std::mt19937& random, const Numbers& shared_a, int rows, int columns,
          int depth)
      : m(rows), n(columns), k(depth), a(shared_a) {
    b = random_numbers(memory, random, static_cast<size_t>(n) * k);
    bias = random_numbers(memory, random, static_cast<size_t>(n));
    result = memory.allocate(static_cast<size_t>(m) * n * 2, std::byte{0xFF});
  }

  attacca_gemm_arguments arguments(const templates::Template& kernel,
                                   const epilogue::Binding& binding) const {
    attacca_gemm_arguments g = product_of(m, n, k, a, b, result);
    EXPECT_EQ(binding.inputs[1].place, epilogue::Place::Row);
    EXPECT_FALSE(kernel.hole.swapped);
    g.row[0] = {pointer_to(bias.address), 1, 0, 2, 0};
    return g;
  }

  // The largest error, as a part of what rounding to bf16 allows.
  double error(Memory& memory) const {
    return largest_error(memory, result, m, n, [&](int row, int column) {
      double sum = bias[column];
      for (int i = 0; i < k; ++i) sum += a[row * k + i] * b[column * k + i];
      return silu(sum);
    });
  }
};

// Empty, or what went wrong. Problems whose blocks are left out get none.
std::string run(const std::string& name, int m, int k, const std::vector<int>& columns) {
  auto kernel = kernel_of(name, columns.size(), kTail);
  if (!kernel) return to_string(kernel.error());
  Memory memory;
  std::mt19937 random(20261126);
  const Numbers a = random_numbers(memory, random, static_cast<size_t>(m) * k);
  std::vector<Problem> problems;
  std::vector<attacca_gemm_arguments> arguments;
  for (const int n : columns) {
    problems.emplace_back(memory, random, a, m, n, k);
    arguments.push_back(problems.back().arguments(*kernel->form, kernel->binding));
  }
  const auto launch = launch_of(*kernel, arguments);
  if (!launch) return to_string(launch.error());
  const Status status = run(*kernel, *launch, memory);
  if (!status) return to_string(status.error());
  for (const Problem& problem : problems)
    if (const double error = problem.error(memory); error > 1)
      return fmt::format("n = {}: {} times the allowed error", problem.n, error);
  return {};
}

TEST(SeveralProblems, DotProducts) {
  EXPECT_EQ(run("dot_tn_1x2_k4_f2_d16", 1, 256, {40, 16}), "");
  EXPECT_EQ(run("dot_tn_1x2_k4_f2_d16", 1, 512, {16, 2, 24, 8}), "");
}

TEST(SeveralProblems, TilesOfTensorCores) {
  EXPECT_EQ(run("mma_tn_128x128x32_f2_d16", 20, 64, {144, 24, 8}), "");
  EXPECT_EQ(run("mma_xx_64x64x32_f2_d16", 70, 33, {65, 7}), "");
}

// What cannot be run here: a persistent kernel with clusters, by TMA and wgmma.
TEST(SeveralProblems, PersistentKernelsAssemble) {
  for (const char* name : {"wgmma_tn_64x64x64_1x1x2_deep_swap_f1_d16",
                           "wgmma_tn_128x128x64_2x1_pingpong_direct_f1_d16"}) {
    const auto kernel = kernel_of(name, 3, kTail);
    ASSERT_TRUE(kernel) << to_string(kernel.error());
    const auto image = Toolchain().assemble(kernel->ptx, "sm_90a");
    ASSERT_TRUE(image) << to_string(image.error());
  }
}

std::string refusal(const std::string& parameters, const std::string& body, size_t problems = 2) {
  const auto module =
      ptx::parse(".version 8.3\n.target sm_90\n.address_size 64\n.visible .entry k(" + parameters +
                 ")\n{\n" + body + "\n  ret;\n}\n");
  EXPECT_TRUE(module);
  const auto several = ptx::compute_several(*module, "k", problems);
  return several ? "" : several.error().what;
}

TEST(SeveralProblems, RefusesWhatItCannotChange) {
  const std::string one = ".param .align 8 .b8 p[64]";
  EXPECT_EQ(refusal(one, ""), "");
  EXPECT_EQ(refusal(".param .u64 p, .param .u64 q", ""),
            "'k' does not have one struct as its only parameter");
  EXPECT_EQ(refusal(one, ".reg .b32 %r<2>; mov.u32 %r1, %clusterid.x;"), "%clusterid.x is read");
  EXPECT_EQ(refusal(".param .align 8 .b8 p[20000]", ""),
            "the parameters of 2 problems take 40008 bytes, more than 32764");
}

}  // namespace
}  // namespace attacca::gpu
