// Ops of 16 bits in eager mode, each alone in the kernel that computes what no product needs: the
// interpreter's bits for every number. user_kernels_test.cpp does so in a user's kernel.
#include <cstring>

#include "fmt/format.h"
#include "gtest/gtest.h"

#include "device/harness.hpp"
#include "ir/text/text.hpp"
#include "kernels/every_number.hpp"
#include "launch/candidate.hpp"
#include "run/check/random_inputs.hpp"

namespace attacca::testing {
namespace {

// "silu(out)" as a graph.
std::string narrow_graph(std::string_view op, ir::DType dtype) {
  const std::string_view function = op.substr(0, op.find('('));
  const bool is_gate = op.find(',') != std::string_view::npos;
  const std::string type = fmt::format("{}[256, 256]", ir::name(dtype));
  return fmt::format("graph narrow(x: {0}{1}) {{\n  return {2}(x{3})\n}}\n", type,
                     is_gate ? ", y: " + type : "", function, is_gate ? ", y" : "");
}

struct NarrowOps : ::testing::TestWithParam<std::tuple<std::string_view, ir::DType>> {};

TEST_P(NarrowOps, HaveTheInterpretersBitsOfEveryNumber) {
  const auto& [op, dtype] = GetParam();
  const auto graph = ir::parse_graph(narrow_graph(op, dtype));
  ASSERT_TRUE(graph) << to_string(graph.error());
  auto inputs = run::random_inputs(*graph, {}, 5);
  ASSERT_TRUE(inputs) << to_string(inputs.error());
  ir::Tensor& x = inputs->at("x");
  for (uint32_t bits = 0; bits < 0x10000; ++bits) std::memcpy(x.data() + 2 * bits, &bits, 2);
  const auto want =
      ir::interpret(*graph, *inputs, {.precision = ir::Precision::Eager, .accumulators = {}});
  ASSERT_TRUE(want) << to_string(want.error());
  const auto each = make_case(*graph, {}, ir::Mode::Eager, *std::move(inputs));
  ASSERT_TRUE(each) << to_string(each.error());
  const auto got = run_candidate(*each, launch::Candidate{});
  ASSERT_TRUE(got) << to_string(got.error());
  EXPECT_EQ(compare_bits(*got, *want), "");
}

INSTANTIATE_TEST_SUITE_P(Each, NarrowOps,
                         ::testing::Combine(::testing::ValuesIn(kernels::kNarrowOps),
                                            ::testing::Values(ir::DType::BF16, ir::DType::F16)),
                         [](const auto& info) {
                           return kernels::narrow_op_name(std::get<0>(info.param),
                                                          std::get<1>(info.param));
                         });

}  // namespace
}  // namespace attacca::testing
