// What is expected of the vendor library's proposals, and which is taken unmeasured.
#include "tune/model/proposal_model.hpp"

#include <cmath>

#include "gtest/gtest.h"

#include "gpu/devices.hpp"
#include "problem_testing.hpp"

namespace attacca::tune {
namespace {

// cublasLt's numbers: kernel 66, 64 x 128 of its column-major result, clusters of 2 x 1.
constexpr int kTile64x128 = 17, kCluster2x1 = 3;

launch::VendorAlgorithm algorithm(int tile, int splits, std::vector<int> places = {0, -1}) {
  return {.config = {66, tile, splits, splits > 1 ? 2 : 0, 0, 0, 35, 0, kCluster2x1},
          .waves = 0.5,
          .workspace_bytes = 0,
          .places = std::move(places)};
}

problem::Problem problem_of(int64_t m, int64_t k = 4096) {
  return testing::make("a: bf16[M, K], w: bf16[1024, K], r: bf16[M, 1024]",
                       "return relu(a @ transpose(w)) * r", {.symbols = {{"M", m}, {"K", k}}})
      .problem.value();
}

double feature(const problem::Problem& problem, const launch::VendorAlgorithm& algorithm,
               ProposalFeature wanted) {
  return proposal_features(problem, launch::vendor_epilogues(problem)[0], algorithm,
                           *gpu::known_device("h200"))[size_t(wanted)];
}

// The library multiplies the transposes: its rows are the problem's columns.
TEST(ProposalModel, KnowsTheTiling) {
  const problem::Problem problem = problem_of(200);
  const auto one = algorithm(kTile64x128, 1), four = algorithm(kTile64x128, 4, {-1, 3});
  using enum ProposalFeature;
  EXPECT_NEAR(std::exp(feature(problem, one, log_tile_rows)), 128, 1e-9);
  EXPECT_NEAR(std::exp(feature(problem, one, log_tile_columns)), 64, 1e-9);
  EXPECT_NEAR(std::exp(feature(problem, one, log_its_waves)), 2 * 16 / 132.0, 1e-9);
  EXPECT_NEAR(std::exp(feature(problem, four, log_its_waves)), 4 * 2 * 16 / 132.0, 1e-9);
  EXPECT_NEAR(std::exp(feature(problem, four, log_part)), 1024, 1e-9);
  EXPECT_NEAR(feature(problem, one, its_used_rows), 200 / 256.0, 1e-9);
  EXPECT_EQ(feature(problem, one, cluster_rows), 1);
  EXPECT_EQ(feature(problem, one, cluster_columns), 2);
  EXPECT_EQ(feature(problem, one, place), 0);
  EXPECT_EQ(feature(problem, four, place_little), 3);
  EXPECT_GT(feature(problem, one, place_little), 12);  // not proposed there
  // A tile that the library does not tell.
  EXPECT_EQ(feature(problem, algorithm(-1, 1), log_tile_rows), 0);
}

std::string best(const problem::Problem& problem, std::vector<launch::Proposal> proposals,
                 const char* device = "h200") {
  return to_string(best_proposal(problem, proposals, *gpu::known_device(device)).candidate);
}

TEST(ProposalModel, TakesAnotherThanTheFirstWhereItsKIsSplit) {
  launch::Candidate first, second;
  second.algorithm = 1;
  // 16 tiles for 132 multiprocessors. Rows are aligned to 8 bytes: there the library's first
  // proposal is often a slow one, and the margin over it is small.
  const problem::Problem problem = problem_of(64, 4100);
  EXPECT_EQ(best(problem,
                 {{first, algorithm(kTile64x128, 1)}, {second, algorithm(kTile64x128, 4, {1, 0})}}),
            "unfused algorithm=1");
  EXPECT_EQ(best(problem,
                 {{first, algorithm(kTile64x128, 4)}, {second, algorithm(kTile64x128, 1, {1, 0})}}),
            "unfused");
  // Nothing was learned of these.
  EXPECT_EQ(best(problem,
                 {{first, algorithm(kTile64x128, 1)}, {second, algorithm(kTile64x128, 4, {1, 0})}},
                 "a100"),
            "unfused");
  EXPECT_EQ(best(problem, {{first, std::nullopt}, {second, algorithm(kTile64x128, 4, {1, 0})}}),
            "unfused");
}

}  // namespace
}  // namespace attacca::tune
