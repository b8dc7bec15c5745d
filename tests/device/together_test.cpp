// Products of one input by one launch: every template that can, on a device, against f64; and that
// a plan's other ways give the same.
#include <atomic>
#include <gtest/gtest.h>

#include "fmt/format.h"

#include "device/harness.hpp"
#include "ir/text/text.hpp"
#include "run/check/compare.hpp"
#include "run/check/random_inputs.hpp"
#include "run/pipeline.hpp"

namespace attacca::testing {
namespace {

// Three projections of one input; the widths fill no tile.
struct Projections {
  int m, k, n[3];
  const char* tail;   // of the product y and the column c
  const char* dtype;  // of inputs and results
};
constexpr Projections kProjections[] = {
    {1, 256, {96, 32, 32}, "{y}", "bf16"},
    {4, 512, {1024, 128, 128}, "{y} + {c}", "f16"},
    {17, 320, {520, 72, 200}, "silu({y} + {c})", "bf16"},
    {130, 512, {768, 768, 768}, "{y} + {c}", "bf16"},
    {515, 192, {264, 1032, 8}, "{y} * {c}", "f16"},
    {300, 96, {63, 130, 255}, "{y} + {c}", "bf16"},
    {129, 512, {2048, 256, 256}, "{y}", "bf16"},
};

std::string text_of(const Projections& p) {
  std::string inputs = fmt::format("x: {}[{}, {}]", p.dtype, p.m, p.k), results;
  for (int i = 0; i < 3; ++i) {
    inputs += fmt::format(", w{0}: {1}[{2}, {3}], c{0}: {1}[{2}]", i, p.dtype, p.n[i], p.k);
    results += fmt::format(
        "{}r{} = {}", i ? ", " : "", i,
        fmt::format(fmt::runtime(p.tail), fmt::arg("y", fmt::format("(x @ transpose(w{}))", i)),
                    fmt::arg("c", fmt::format("c{}", i))));
  }
  return fmt::format("graph projections({}) {{ return {} }}", inputs, results);
}

// Empty if every output's error against f64 is at most the op-by-op interpreter's plus one last
// place.
std::string difference(const std::vector<ir::Tensor>& got, const std::vector<ir::Tensor>& exact,
                       const std::vector<ir::Tensor>& eager) {
  std::string report;
  for (size_t i = 0; i < got.size(); ++i) {
    const run::Difference is = run::compare(got[i], exact[i]);
    const run::Difference allowed = run::compare(eager[i], exact[i]);
    if (is.largest > allowed.largest + 0x1p-8 * is.scale ||
        is.mismatched_nan > allowed.mismatched_nan)
      report +=
          fmt::format("output {}: error {:.3g} against {:.3g}; ", i, is.largest, allowed.largest);
  }
  return report;
}

// Runs the projections by this template where it computes them together. Returns whether it does.
bool run_together(const Projections& projections, const std::string& kernel, ir::Mode mode) {
  const auto graph = ir::parse_graph(text_of(projections));
  EXPECT_TRUE(graph) << (graph ? "" : to_string(graph.error()));
  run::Options options;
  options.cuda.tuning = run::Tuning::Model;
  options.cuda.tune_options.filter.allow = {kernel};
  const auto plan = run::compile(*graph, device_target(mode), options);
  EXPECT_TRUE(plan) << (plan ? "" : to_string(plan.error()));
  if (!plan) return false;
  const auto instance = plan->cuda().instance({});
  EXPECT_TRUE(instance) << (instance ? "" : to_string(instance.error()));
  if (!instance || (*instance)->decisions()[0].together() != 3) return false;
  EXPECT_EQ((*instance)->decisions()[0].used().kernel, kernel);
  const auto inputs = run::random_inputs(*graph, {}, 7);
  const auto got = plan->run(*inputs);
  EXPECT_TRUE(got) << kernel << (got ? "" : to_string(got.error()));
  if (!got) return true;
  const auto exact = ir::interpret(*graph, *inputs);
  const auto eager =
      ir::interpret(*graph, *inputs, {.precision = ir::Precision::Eager, .accumulators = {}});
  EXPECT_EQ("", difference(*got, *exact, *eager)) << kernel << " " << text_of(projections);
  return true;
}

class TogetherOnDevice : public ::testing::TestWithParam<std::string> {};

TEST_P(TogetherOnDevice, isRight) {
  const templates::Template& kernel = *toolbox()->catalog().find(GetParam());
  for (size_t i = 0; i < std::size(kProjections); ++i)
    run_together(kProjections[i], kernel.name, i % 2 == 0 ? ir::Mode::Fp32 : ir::Mode::Eager);
}

std::vector<std::string> names() {
  std::vector<std::string> all;
  for (const templates::Template& kernel : toolbox()->catalog().templates())
    if (kernel.family == templates::Family::Gemm && kernel.hole.accumulators == 1 &&
        takes(kernel, ir::DType::BF16) && kernel.packed_bits == 0 && !kernel.grouped &&
        !kernel.name.starts_with("cutlass_"))
      all.push_back(kernel.name);
  return all;
}
INSTANTIATE_TEST_SUITE_P(Templates, TogetherOnDevice, ::testing::ValuesIn(names()),
                         template_test_name);

TEST(TogetherCounted, MostTemplatesComputeSeveralProblems) {
  std::atomic<int> ran = 0;
  const std::vector<std::string> all = names();
  in_parallel(static_cast<int>(all.size()), [&](int i) {
    const Projections& some = kProjections[static_cast<size_t>(i) % std::size(kProjections)];
    const auto graph = ir::parse_graph(text_of(some));
    run::Options options;
    options.cuda.tuning = run::Tuning::Model;
    options.cuda.tune_options.filter.allow = {all[static_cast<size_t>(i)]};
    const auto plan = run::compile(*graph, device_target(), options);
    if (!plan) return;
    const auto instance = plan->cuda().instance({});
    if (instance && (*instance)->decisions()[0].together() == 3) ++ran;
  });
  EXPECT_GE(ran, static_cast<int>(all.size()) / 4);
}

}  // namespace
}  // namespace attacca::testing
