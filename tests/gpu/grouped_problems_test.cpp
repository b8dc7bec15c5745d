// Grouped products by mma.sync, some by one launch: the real template with an epilogue, on the PTX
// interpreter, whose memory refuses every access out of bounds, against sums in f64.
#include "fmt/format.h"
#include "gtest/gtest.h"

#include "gpu/several_kernels.hpp"
#include "ir/interpret/groups.hpp"

namespace attacca::gpu {
namespace {

// silu(x x w[group] + bias), with matrices as (n, k), in memory that is poisoned before.
struct GroupedProblem {
  int m, n, k;
  std::vector<int32_t> ends;
  Numbers a, b, bias;
  uint64_t ends_at = 0, result = 0;

  GroupedProblem(Memory& memory, std::mt19937& random, int m, int n, int k,
                 const std::vector<int32_t>& ends)
      : m(m), n(n), k(k), ends(ends) {
    a = random_numbers(memory, random, static_cast<size_t>(m) * k);
    b = random_numbers(memory, random, ends.size() * n * k);
    bias = random_numbers(memory, random, static_cast<size_t>(n));
    ends_at = memory.allocate(ends.size() * sizeof(int32_t));
    std::memcpy(memory.bytes(ends_at).data(), ends.data(), ends.size() * sizeof(int32_t));
    result = memory.allocate(static_cast<size_t>(m) * n * 2, std::byte{0xFF});
  }

  attacca_gemm_arguments arguments() const {
    attacca_gemm_arguments g = product_of(m, n, k, a, b, result);
    g.sm_count = 1;  // each block computes several tiles
    g.b.batch_stride = int64_t{n} * k;
    g.row[0] = {pointer_to(bias.address), 1, 0, 2, 0};
    g.group_ends = pointer_to(ends_at);
    g.group_stride = 1;
    g.groups = static_cast<int32_t>(ends.size());
    return g;
  }

  // The largest error, as a part of what rounding to bf16 allows.
  double error(Memory& memory) const {
    const auto clamped = ir::group_ends(ends.data(), static_cast<int64_t>(ends.size()), 1, m);
    return largest_error(memory, result, m, n, [&](int row, int column) {
      const size_t group = std::upper_bound(clamped.begin(), clamped.end(), row) - clamped.begin();
      double sum = bias[column];
      for (int i = 0; i < k && group < ends.size(); ++i)
        sum += a[static_cast<size_t>(row) * k + i] * b[(group * n + column) * k + i];
      return silu(sum);
    });
  }
};

// One problem for each list of ends, by one launch. Empty, or what went wrong.
std::string run(int m, int n, int k, const std::vector<std::vector<int32_t>>& ends) {
  auto kernel =
      kernel_of("grouped_mma_tn_64x64x32_f2_d16", ends.size(), "silu(acc + row(bias: bf16))");
  if (!kernel) return to_string(kernel.error());
  Memory memory;
  std::mt19937 random(20261126);
  std::vector<GroupedProblem> problems;
  std::vector<attacca_gemm_arguments> arguments;
  for (const std::vector<int32_t>& own : ends) {
    problems.emplace_back(memory, random, m, n, k, own);
    arguments.push_back(problems.back().arguments());
  }
  const auto launch = launch_of(*kernel, arguments);
  if (!launch) return to_string(launch.error());
  const Status status = run(*kernel, *launch, memory);
  if (!status) return to_string(status.error());
  for (const GroupedProblem& problem : problems)
    if (const double error = problem.error(memory); error > 1)
      return fmt::format("{} times the allowed error", error);
  return {};
}

// Groups of no row, of one, of more than a tile, and rows after the last end.
TEST(GroupedProblems, RaggedGroups) {
  EXPECT_EQ(run(150, 72, 104, {{0, 1, 1, 70, 97, 97, 140}, {0, 150, 150}}), "");
  EXPECT_EQ(run(20, 16, 40, {{3, 9, 20}, {20}, {0, 20, 20, 20}}), "");
}

TEST(GroupedProblems, EndsThatDescendOrLieOutside) {
  EXPECT_EQ(run(40, 24, 40, {{-5, 30, 10, INT32_MAX, INT32_MIN}, {-1, -7}}), "");
}

}  // namespace
}  // namespace attacca::gpu
