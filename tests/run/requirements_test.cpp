// The requirements by name on the CPU: one region each, and no less exact than the unfused graph.
#include "gtest/gtest.h"

#include "ir/interpret/interpreter.hpp"
#include "ir/interpret/last_place.hpp"
#include "ir/text/text.hpp"
#include "requirements/graphs.hpp"
#include "run/check/compare.hpp"
#include "run/check/random_inputs.hpp"
#include "run/pipeline.hpp"

namespace attacca::run {
namespace {

using requirements::Requirement;

struct Requirements : testing::TestWithParam<Requirement> {};

TEST_P(Requirements, FuseAndAreExact) {
  const auto graph = ir::parse_graph(GetParam().text);
  ASSERT_TRUE(graph) << to_string(graph.error());
  const auto plan = compile(*graph, Target::cpu());
  ASSERT_TRUE(plan) << to_string(plan.error());
  EXPECT_EQ(plan->prepared.partition->regions.size(), static_cast<size_t>(GetParam().regions));
  for (const int64_t m : {1, 17, 48, 129}) {
    const auto inputs = random_inputs(*graph, {{"M", m}}, 3);
    ASSERT_TRUE(inputs) << to_string(inputs.error());
    const auto outputs = plan->run(*inputs);
    ASSERT_TRUE(outputs) << to_string(outputs.error());
    const auto exact = ir::interpret(*graph, *inputs);
    const auto eager =
        ir::interpret(*graph, *inputs, {.precision = ir::Precision::Eager, .accumulators = {}});
    for (size_t i = 0; i < outputs->size(); ++i) {
      const Difference got = compare((*outputs)[i], (*exact)[i]);
      const Difference allowed = compare((*eager)[i], (*exact)[i]);
      const ir::DType dtype = (*outputs)[i].dtype();
      const double place = ir::is_float(dtype) ? ir::last_place(dtype) * allowed.scale : 1;
      EXPECT_LE(got.largest, allowed.largest + place) << "output " << i << ", M = " << m;
      EXPECT_EQ(got.mismatched_nan, 0) << "output " << i << ", M = " << m;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(ByName, Requirements, testing::ValuesIn(requirements::kRequirements),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace attacca::run
