// Regions that are computed by one launch, on the stand-in for the driver: which are, what is
// launched, and that the others are not. What the kernels compute is tested where they run:
// gpu/several_problems_test.cpp, device/together_test.cpp.
#include <algorithm>

#include "gtest/gtest.h"

#include "gpu/fake_cuda.hpp"
#include "ir/text/text.hpp"
#include "run/cuda/plan.hpp"
#include "run/pipeline.hpp"
#include "tune/database.hpp"

namespace attacca::run {
namespace {

// Rows of 120 bytes: what takes them needs no tensor map, which the stand-in cannot encode.
const std::string kInputs =
    "x: f16[M, 60], w: f16[60, 60], v: f16[20, 60], u: f16[20, 60], a: f16[60], b: f16[20], "
    "c: f16[20], w6: f16[6000, 60], v6: f16[6000, 60]";

struct Made {
  std::shared_ptr<const CudaInstance> instance;
  size_t inputs = 0, outputs = 0;
};

Made made(const std::string& body, CudaOptions options = {.tuning = Tuning::Model},
          bool batch_invariant = false, int64_t m = 24) {
  auto graph = ir::parse_graph("graph g(" + kInputs + ") {\n" + body + "\n}");
  if (!graph) ADD_FAILURE() << to_string(graph.error());
  Target target = Target::of({.cuda = true}).value();
  target.batch_invariant = batch_invariant;
  auto prepared = prepare(*graph, target);
  if (!prepared) ADD_FAILURE() << to_string(prepared.error());
  const auto plan = CudaPlan::make(*std::move(prepared), std::move(options));
  if (!plan) ADD_FAILURE() << to_string(plan.error());
  const auto instance = plan->instance({{"M", m}});
  if (!instance) ADD_FAILURE() << to_string(instance.error());
  return {*instance, graph->inputs().size(), graph->outputs().size()};
}

// How many regions the launch of each region computes.
std::vector<size_t> together(const Made& plan) {
  std::vector<size_t> counts;
  for (const Decision& decision : plan.instance->decisions()) counts.push_back(decision.together());
  return counts;
}
using Counts = std::vector<size_t>;

int launches(const Made& plan) {
  std::vector<void*> inputs, outputs;
  for (size_t i = 0; i < plan.inputs; ++i)
    inputs.push_back(reinterpret_cast<void*>(0x10000 * (i + 1)));
  for (size_t i = 0; i < plan.outputs; ++i)
    outputs.push_back(reinterpret_cast<void*>(0x1000000 + 0x10000 * i));
  fake<decltype(fake_cuda_reset)>("fake_cuda_reset")();
  const Status status =
      plan.instance->launch(inputs, outputs, reinterpret_cast<void*>(0x2000000), nullptr);
  EXPECT_TRUE(status) << (status ? "" : to_string(status.error()));
  const std::string calls = fake<decltype(fake_cuda_calls)>("fake_cuda_calls")();
  int count = 0;
  for (size_t at = calls.find("cuLaunch"); at != calls.npos; at = calls.find("cuLaunch", at + 1))
    ++count;
  return count;
}

const std::string kProjections =
    "return q = x @ transpose(w) + a, k = x @ transpose(v) + b, v1 = x @ transpose(u) + c";

TEST(Together, ProjectionsOfOneInput) {
  const Made plan = made(kProjections);
  EXPECT_EQ(together(plan), (Counts{3, 3, 3}));
  EXPECT_EQ(launches(plan), 1);
  for (const Decision& decision : plan.instance->decisions()) {
    EXPECT_LT(decision.joint->seconds, decision.joint->apart_seconds);
    EXPECT_EQ(decision.joint->source, Source::Model);
    EXPECT_EQ(decision.used(), decision.joint->candidate);
  }
}

TEST(Together, OtherTailsAreOtherLaunches) {
  const Made plan = made(
      "return q = relu(x @ transpose(w) + a), k = x @ transpose(v) + b, "
      "v1 = x @ transpose(u) + c");
  EXPECT_EQ(together(plan), (Counts{1, 2, 2}));
  EXPECT_EQ(launches(plan), 2);
}

TEST(Together, ARegionThatReadsAnotherOnesResultComesAfterIt) {
  // k's bias is computed from q.
  const Made plan = made(
      "q = x @ transpose(w) + a\nb1 = sum(q, axes=[0])[0:20]\n"
      "return q, k = x @ transpose(v) + b1, v1 = x @ transpose(u) + c");
  for (const Decision& decision : plan.instance->decisions()) EXPECT_LE(decision.together(), 2u);
}

TEST(Together, NotWhereTheModeOrTheOptionsForbidIt) {
  EXPECT_EQ(together(made(kProjections, {.tuning = Tuning::Model}, true)), (Counts{1, 1, 1}));
  EXPECT_EQ(together(made(kProjections, {.tuning = Tuning::Unfused})), (Counts{1, 1, 1}));
}

TEST(Together, NotWhereEachFillsTheDevice) {
  const std::string wide = "return q = x @ transpose(w6), k = x @ transpose(v6)";
  EXPECT_EQ(together(made(wide)), (Counts{2, 2}));
  EXPECT_EQ(together(made(wide, {.tuning = Tuning::Model}, false, 2000)), (Counts{1, 1}));
}

TEST(Together, NotWhereWhatWasMeasuredIsFaster) {
  const Made first = made(kProjections);
  CudaOptions options;
  for (const Decision& decision : first.instance->decisions()) {
    tune::Choice choice{.candidate = decision.candidate, .seconds = 1e-7};
    options.choices.push_back({decision.key, choice});
  }
  EXPECT_EQ(together(made(kProjections, options)), (Counts{1, 1, 1}));
}

// On the stand-in each launch takes as long as any other.
TEST(Together, MeasuredItIsKept) {
  ASSERT_TRUE(tune::Database::open()->clear());
  CudaOptions options{.tuning = Tuning::Always};
  const Made measured = made(kProjections, options);
  ASSERT_EQ(together(measured), (Counts{3, 3, 3}));
  const JointLaunch& joint = *measured.instance->decisions()[0].joint;
  EXPECT_EQ(joint.source, Source::Measured);
  EXPECT_NEAR(joint.apart_seconds / joint.seconds, 3, 0.1);
  options.tuning = Tuning::Known;
  const Made again = made(kProjections, options);
  ASSERT_EQ(together(again), (Counts{3, 3, 3}));
  EXPECT_EQ(again.instance->decisions()[0].joint->source, Source::Database);
  EXPECT_EQ(again.instance->decisions()[0].used(), joint.candidate);
  // Stored as slower, it is not used, although the model expects a gain.
  auto database = tune::Database::open();
  const auto rows = database->list();
  ASSERT_TRUE(rows);
  for (const tune::StoredChoice& row : *rows) {
    if (!row.key.problem.starts_with("together: ")) continue;
    ASSERT_TRUE(database->store(row.key, {.candidate = {}, .seconds = 1, .unfused_seconds = 1}));
  }
  EXPECT_EQ(together(made(kProjections, options)), (Counts{1, 1, 1}));
  ASSERT_TRUE(database->clear());
}

}  // namespace
}  // namespace attacca::run
