// Decisions kept by an earlier version that name a template which the catalogue no longer has, on
// the stand-in for the driver: each is a miss, without an error.
#include "gtest/gtest.h"

#include "ir/text/text.hpp"
#include "run/cuda/plan.hpp"
#include "tune/database.hpp"
#include "unfolded.hpp"

namespace attacca::run {
namespace {

// The names of templates before their folders' names became their prefixes.
constexpr const char* kForgotten[] = {
    "bf16_tn_128x128x64_2x1_pingpong_f1", "sm90_tn_128x128x64_2x1_pingpong_direct_f1_d16",
    "sm80_tn_128x128x32_f2_d16", "mixed_wgmma_i4_bf16_128x128_1x2_pingpong_f2_d16"};

Decision decided(const CudaOptions& options = {}) {
  auto graph =
      ir::parse_graph("graph g(x: bf16[M, 64], w: bf16[64, 64]) { return y = relu(matmul(x, w)) }");
  if (!graph) ADD_FAILURE() << to_string(graph.error());
  const auto plan =
      CudaPlan::make(unfolded(*std::move(graph), Target::of({.cuda = true}).value()), options);
  if (!plan) ADD_FAILURE() << to_string(plan.error());
  const auto instance = plan->instance({{"M", 100}});
  if (!instance) ADD_FAILURE() << to_string(instance.error());
  return (*instance)->decisions().at(0);
}

tune::Choice choice_of(const std::string& kernel) {
  tune::Choice choice{.candidate = {}, .seconds = 1e-6};
  choice.candidate.kind = launch::CandidateKind::Fused;
  choice.candidate.kernel = kernel;
  return choice;
}

TEST(ForgottenTemplate, InAPlanIsAMiss) {
  ASSERT_TRUE(tune::Database::open()->clear());
  const Decision first = decided({.tuning = Tuning::Model});
  const std::string taken = first.candidate.kernel;
  ASSERT_NE(taken, "");
  EXPECT_EQ(first.source, Source::Model);
  for (const std::string kernel : kForgotten) {
    const Decision again = decided({.choices = {{first.key, choice_of(kernel)}}});
    EXPECT_EQ(again.candidate.kernel, taken);
    EXPECT_EQ(again.source, first.source) << kernel;
  }
  EXPECT_EQ(decided({.choices = {{first.key, choice_of(taken)}}}).source, Source::Plan);
}

TEST(ForgottenTemplate, InTheDatabaseIsAMiss) {
  const Decision first = decided({.tuning = Tuning::Model});
  auto database = tune::Database::open();
  ASSERT_TRUE(database) << to_string(database.error());
  for (const std::string kernel : kForgotten) {
    ASSERT_TRUE(database->store(first.key, choice_of(kernel)));
    const Decision again = decided();
    EXPECT_EQ(again.candidate.kernel, first.candidate.kernel);
    EXPECT_EQ(again.source, first.source) << kernel;
  }
  ASSERT_TRUE(database->store(first.key, choice_of(first.candidate.kernel)));
  EXPECT_EQ(decided().source, Source::Database);
}

}  // namespace
}  // namespace attacca::run
