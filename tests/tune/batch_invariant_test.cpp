// Of a batch-invariant problem, one order of sums is chosen for all numbers of rows; templates
// whose sums depend on it, or are in another order, are left out with the reason.
#include <set>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "gtest/gtest.h"

#include "gpu/devices.hpp"
#include "launch/legality.hpp"
#include "mentions.hpp"
#include "problem_testing.hpp"
#include "random_problems.hpp"
#include "templates/sum_order.hpp"
#include "tune/candidates.hpp"

namespace attacca::tune {
namespace {

using testing::make;
using testing::Source;

constexpr int kRows[] = {1, 2, 3, 5, 8, 16, 17, 33, 64, 100, 128, 255, 300, 1024, 4097, 8192};

const templates::Catalog& catalog() {
  static const templates::Catalog opened = *templates::Catalog::open(nullptr);
  return opened;
}

gpu::DeviceInfo device(const std::string& name) {
  return *gpu::known_device(name);
}

Result<problem::Problem> invariant(const std::string& parameters, const std::string& body,
                                   int alignment = 16) {
  auto made = make(parameters, body, {.symbols = {}, .alignment = alignment});
  if (made.problem) make_batch_invariant(*made.problem);
  return made.problem;
}

std::string reason(const launch::Candidates& all, const std::string& kernel) {
  for (const launch::Exclusion& each : all.excluded)
    if (each.kernel == kernel) return each.reason;
  return "not excluded";
}

// The order in which all that is ranked sums.
std::string order_of(const launch::Candidates& all) {
  std::set<std::string> orders;
  for (const launch::Candidate& each : all.ranked)
    orders.insert(templates::sum_order(*catalog().find(each.kernel)));
  return fmt::format("{}", fmt::join(orders, "; "));
}

TEST(BatchInvariant, TheSameOrderIsChosenForEveryNumberOfRows) {
  std::set<std::string> families, orders;
  for (const char* name : {"h200", "a100"})
    for (uint32_t seed = 0; seed < 600; ++seed) {
      std::string first;
      for (const int rows : kRows) {
        Source source(seed);
        const auto [parameters, body] = source.problem(rows);
        const auto made = invariant(parameters, body);
        SCOPED_TRACE(fmt::format("seed {}: {}\n{}", seed, parameters, body));
        ASSERT_TRUE(made) << to_string(made.error());
        // One row has no layout of its own: it is taken as a dense row.
        if (made->products.empty()) break;
        if (rows == 1 &&
            (body.find("transpose(a)") != std::string::npos ||
             parameters.substr(0, parameters.find(']')).find(';') != std::string::npos))
          continue;
        const launch::Candidates all = fused_candidates(*made, catalog(), device(name));
        const std::string order = "in " + order_of(all);
        if (first.empty()) first = order;
        EXPECT_EQ(order, first) << rows << " rows";
        if (all.ranked.empty()) continue;
        orders.insert(order.find('_') == std::string::npos ? order : "alone");
        families.insert(all.ranked[0].kernel.substr(0, all.ranked[0].kernel.find('_')));
      }
    }
  EXPECT_EQ(fmt::format("{}", fmt::join(families, " ")), "cutlass grouped mma packed wgmma wide");
  EXPECT_EQ(fmt::format("{}", fmt::join(orders, "; ")),
            "alone; in exact; in steps of 16; in steps of 32, in f32 every 128");
}

TEST(BatchInvariant, TemplatesOfTheOrderAreRankedByTheNumberOfRows) {
  std::set<std::string> chosen;
  for (const int rows : kRows)
    chosen.insert(
        fused_candidates(*invariant(fmt::format("a: bf16[{}, 4096], b: bf16[4096, 4096]", rows),
                                    "return a @ transpose(b)"),
                         catalog(), device("h200"))
            .ranked[0]
            .kernel);
  EXPECT_GT(chosen.size(), 1u);
}

// Sums of bytes are exact: blocks may divide K, if they do it in a way that gives every row.
TEST(BatchInvariant, SumsOfBytesAreExact) {
  const auto made = invariant("a: s8[64, 4096], b: s8[4096, 4096]", "return a @ transpose(b)");
  EXPECT_EQ(order_of(fused_candidates(*made, catalog(), device("h200"))), "exact");
}

TEST(BatchInvariant, WhatIsLeftOutHasTheReason) {
  const auto made = invariant("a: bf16[1, 4096], b: bf16[4096, 4096]", "return a @ transpose(b)");
  const launch::Candidates all = fused_candidates(*made, catalog(), device("h200"));
  EXPECT_TRUE(mentions(reason(all, "cutlass_tn_128x128x64_2x1_streamk_f1"),
                       "batch_invariant; divides K; depends on M"));
  const auto narrow = invariant("a: bf16[1, 4096], b: bf16[4096, 4096], c: bf16[4096]",
                                "return cast(a @ transpose(b) + c, bf16)");
  EXPECT_TRUE(
      mentions(reason(fused_candidates(*narrow, catalog(), device("h200")), "dot_tn_1x2_k4_f2_d16"),
               "batch_invariant; does not take 3 rows; at most 1 row of A"));
  const auto packed = invariant("a: bf16[300, 128], w: u8[8960]",
                                "return a @ transpose(unpack(w, [128, 128], weights=s8, bits=4, "
                                "group=64, scales=bf16, dtype=bf16))");
  ASSERT_TRUE(packed) << to_string(packed.error());
  EXPECT_TRUE(mentions(reason(fused_candidates(*packed, catalog(), device("h200")),
                              "packed_wgmma_i4_bf16_256x128_1x2_tail_direct_f0_d16"),
                       "batch_invariant; last tiles; depends on M"));
}

// The blocks of a cluster begin with their own sums: the order of three or more depends on the row,
// unless the kernel's rows are the problem's columns.
TEST(BatchInvariant, BlocksThatShareK) {
  const auto made = invariant("a: bf16[64, 4096], b: bf16[4096, 4096]", "return a @ transpose(b)");
  templates::Template kernel = *catalog().find("wgmma_tn_128x128x64_2x1_pingpong_direct_f1_d16");
  const auto is_legal = [&](int blocks, bool b_first) {
    kernel.cluster_k = blocks;
    kernel.b_first = b_first;
    const launch::Legality legal = launch::legality(*made, kernel, device("h200"));
    return legal.index() == 0 ? "legal" : std::get<1>(legal);
  };
  EXPECT_EQ(is_legal(1, false), "legal");
  EXPECT_EQ(is_legal(2, false), "legal");
  EXPECT_TRUE(mentions(is_legal(4, false), "batch_invariant; row's place in a tile"));
  EXPECT_EQ(is_legal(4, true), "legal");
}

TEST(BatchInvariant, IsAnotherProblem) {
  auto made = invariant("a: bf16[64, 256], b: bf16[128, 256]", "return a @ transpose(b)");
  const std::string bucket = shape_bucket(*made);
  const std::string with = problem_class(*made);
  made->batch_invariant = false;
  EXPECT_NE(problem_class(*made), with);
  EXPECT_EQ(shape_bucket(*made), bucket);
}

}  // namespace
}  // namespace attacca::tune
