// The sources of the mma, wgmma, dot and pointwise kernels, run on the CPU (emulator/): every
// template variant, on ragged extents and odd layouts, gives a plain loop's result and writes
// nothing else.
#include <cstdlib>
#include <string>
#include <vector>

#include "gtest/gtest.h"

#include "templates/emulator/problem.hpp"

namespace attacca::emulator {
namespace {

// Runs it; returns what went wrong, empty if nothing did.
std::string run(const Kernel& kernel, const Problem& problem, uint32_t seed) {
  if (std::string reason = launch(kernel, problem.arguments(), seed); !reason.empty())
    return reason;
  std::string difference;
  problem.outputs_as_expected(difference);
  return difference;
}

class Emulated : public ::testing::TestWithParam<Kernel> {};

TEST_P(Emulated, GivesWhatALoopGives) {
  const Kernel& kernel = GetParam();
  const attacca_info info = kernel.record->info();
  // Extents just below and above multiples of the tile and of a chunk of 8.
  const bool few = info.schedule == std::string("dot");  // no more rows than a tile's
  std::vector<int> ms = few ? std::vector<int>{1, info.tile_m - info.tile_m / 4, info.tile_m}
                            : std::vector<int>{1, 2, 17, info.tile_m + 1};
  // A round of two clusters, then a tail.
  if (info.schedule == std::string("shared_tail")) ms = {17, info.tile_m + 1, 2 * info.tile_m + 1};
  // Several groups of more than a tile.
  if (info.grouped) ms = {0, 1, 17, info.tile_m + 1, 3 * info.tile_m + 5};
  std::vector<int> ns = {1, 7, 8, 24, info.accumulators ? info.tile_n + 3 : 300};
  // A tile that begins within a block of scales.
  if (info.scaled_blocks && info.tile_n % 128 != 0) ns = {24, 3 * info.tile_n - 5};
  std::vector<int> ks = {0, 1, 8, 31, 3 * info.tile_k + 5, 7 * info.tile_k};
  // Packed weights that stream meet several panels of A, each of some steps of k.
  if (info.packed_bits > 0 && info.schedule == std::string("streaming"))
    ks.push_back(15 * info.tile_k + 70);
  std::mt19937 random(20261121);
  const auto pick = [&](const std::vector<int>& from) { return from[random() % from.size()]; };
  // A warpgroup's 128 fibers are slow, and much slower where each access is checked.
#ifdef __SANITIZE_ADDRESS__
  constexpr uint32_t kProblems = 4;
#else
  constexpr uint32_t kProblems = 12;
#endif
  const uint32_t problems = info.grouped                         ? kProblems
                            : info.arch == std::string("sm_90a") ? kProblems / 2
                            : info.accumulators == 0             ? 5 * kProblems
                                                                 : kProblems;
  for (uint32_t seed = 0; seed < problems; ++seed) {
    const bool packed = info.packed_bits > 0;  // one matrix, some k, of two 4-bit codes a byte
    const int batch = seed % 4 == 3 && !packed && !info.grouped ? 3 : 1;
    const int m = pick(ms), n = pick(ns), k = pick(ks);
    // No problem without values of k reaches a kernel that widens its weights.
    const int least = packed ? 2 : info.code_bits > 0 ? 32 : info.widened ? 1 : 0;
    const int step = packed ? 2 : info.code_bits > 0 ? 32 : 1;
    const Problem problem(kernel, m, n, std::max(least, k / step * step), batch, seed);
    ASSERT_EQ(run(kernel, problem, seed), "") << problem.description();
  }
}

INSTANTIATE_TEST_SUITE_P(Templates, Emulated, ::testing::ValuesIn(kernels()),
                         [](const auto& test) { return test.param.record->entry.name; });

}  // namespace
}  // namespace attacca::emulator
