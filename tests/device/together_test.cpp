// Products of one input by one launch: every template that can, on a device, against f64; and that
// a plan's other ways give the same.
#include <algorithm>
#include <atomic>
#include <gtest/gtest.h>

#include "fmt/format.h"

#include "device/harness.hpp"
#include "ir/packed/packed.hpp"
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
  const char* dtype;  // of inputs and results, or of the bytes whose results are bf16
  bool packed = false;
};
constexpr Projections kProjections[] = {
    {1, 256, {96, 32, 32}, "{y}", "bf16"},
    {4, 512, {1024, 128, 128}, "{y} + {c}", "f16"},
    {17, 320, {520, 72, 200}, "silu({y} + {c})", "bf16"},
    {130, 512, {768, 768, 768}, "{y} + {c}", "bf16"},
    {515, 192, {264, 1032, 8}, "{y} * {c}", "f16"},
    {300, 96, {63, 130, 255}, "{y} + {c}", "bf16"},
    {129, 512, {2048, 256, 256}, "{y}", "bf16"},
    {3, 512, {512, 128, 136}, "cast(cast({y}, f32) * {c}, bf16)", "s8"},
    {70, 384, {264, 72, 128}, "cast(cast({y}, f32) * {c}, bf16)", "s8"},
    {257, 640, {768, 256, 256}, "cast(cast({y}, f32) * {c}, bf16)", "s8"},
    {5, 512, {512, 128, 136}, "cast({y} * {c}, bf16)", "f8e4m3"},
    {140, 768, {768, 256, 256}, "cast({y} * {c}, bf16)", "f8e4m3"},
    {2, 512, {1024, 128, 136}, "{y} + {c}", "bf16", true},
    {24, 384, {520, 72, 200}, "silu({y} + {c})", "bf16", true},
    {300, 512, {768, 256, 256}, "{y} * {c}", "bf16", true},
};

bool has_bytes(const Projections& p) {
  return p.dtype == std::string("s8") || p.dtype == std::string("f8e4m3");
}

std::string text_of(const Projections& p) {
  constexpr ir::Packing kPacking{
      .weights = ir::DType::S8, .bits = 4, .group = 128, .scales = ir::DType::BF16};
  std::string inputs = fmt::format("x: {}[{}, {}]", p.dtype, p.m, p.k), results;
  for (int i = 0; i < 3; ++i) {
    const int n = p.n[i];
    std::string weight = fmt::format("w{}", i);
    if (p.packed) {
      inputs += fmt::format(", {}: u8[{}]", weight, ir::packed_layout(kPacking, n, p.k)->bytes);
      weight = fmt::format("unpack({}, [{}, {}], {}, dtype={})", weight, n, p.k,
                           to_string(kPacking), p.dtype);
    } else {
      inputs += fmt::format(", {}: {}[{}, {}]", weight, p.dtype, n, p.k);
    }
    inputs += fmt::format(", c{}: {}[{}]", i, has_bytes(p) ? "f32" : p.dtype, n);
    const bool sums = p.dtype == std::string("f8e4m3");
    const std::string product =
        fmt::format("matmul(x, transpose({}){})", weight, sums ? ", out=f32" : "");
    results += fmt::format("{}r{} = {}", i ? ", " : "", i,
                           fmt::format(fmt::runtime(p.tail), fmt::arg("y", product),
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

struct Made {
  run::Compiled plan;
  std::shared_ptr<const run::CudaInstance> instance;

  bool is_joint() const { return instance->decisions()[0].together() == 3; }
};

// A plan that may use this template only.
Result<Made> make(const ir::Graph& graph, const std::string& kernel, ir::Mode mode) {
  run::Options options;
  options.cuda.tuning = run::Tuning::Model;
  options.cuda.tune_options.filter.allow = {kernel};
  ATTACCA_TRY(run::Compiled plan, run::compile(graph, device_target(mode), options));
  ATTACCA_TRY(auto instance, plan.cuda().instance({}));
  return Made{std::move(plan), std::move(instance)};
}

// Runs the projections by this template where it computes them together. Returns whether it does.
bool run_together(const Projections& projections, const std::string& kernel, ir::Mode mode) {
  const auto graph = ir::parse_graph(text_of(projections));
  EXPECT_TRUE(graph) << (graph ? "" : to_string(graph.error()));
  const auto made = make(*graph, kernel, mode);
  EXPECT_TRUE(made) << (made ? "" : to_string(made.error()));
  if (!made || !made->is_joint()) return false;
  EXPECT_EQ(made->instance->decisions()[0].used().kernel, kernel);
  const auto inputs = run::random_inputs(*graph, {}, 7);
  const auto got = made->plan.run(*inputs);
  EXPECT_TRUE(got) << kernel << (got ? "" : to_string(got.error()));
  if (!got) return true;
  const auto exact = ir::interpret(*graph, *inputs);
  const auto eager =
      ir::interpret(*graph, *inputs, {.precision = ir::Precision::Eager, .accumulators = {}});
  EXPECT_EQ("", difference(*got, *exact, *eager)) << kernel << " " << text_of(projections);
  return true;
}

bool may_compute(const templates::Template& kernel, const Projections& projections) {
  return (kernel.packed_bits != 0) == projections.packed &&
         takes(kernel, ir::parse_dtype(projections.dtype).value());
}

std::vector<std::string> names() {
  std::vector<std::string> all;
  for (const templates::Template& kernel : toolbox()->catalog().templates())
    if (kernel.family == templates::Family::Gemm && kernel.hole.accumulators == 1 &&
        !kernel.widened && !kernel.scaled_blocks && !kernel.grouped &&
        !kernel.name.starts_with("cutlass_") && kernel.packed_scale_bits != 8 &&
        std::any_of(std::begin(kProjections), std::end(kProjections),
                    [&](const Projections& each) { return may_compute(kernel, each); }))
      all.push_back(kernel.name);
  return all;
}

// Each template is asked for some of the projections of its kind, others than its neighbour.
constexpr size_t kEach = 3;
const Projections& projections_of(size_t kernel, size_t number) {
  static const std::vector<std::string> all = names();
  const templates::Template& form = *toolbox()->catalog().find(all[kernel]);
  std::vector<const Projections*> fitting;
  for (const Projections& each : kProjections)
    if (may_compute(form, each)) fitting.push_back(&each);
  return *fitting.at((kernel + 2 * number) % fitting.size());
}
ir::Mode mode_of(size_t kernel) {
  return kernel % 2 == 0 ? ir::Mode::Fp32 : ir::Mode::Eager;
}

class TogetherOnDevice : public ::testing::TestWithParam<size_t> {
 protected:
  // Compiles all kernels, on every core, into the cache; most templates must compute several
  // problems.
  static void SetUpTestSuite() {
    const std::vector<std::string> all = names();
    std::atomic<size_t> joint = 0;
    in_parallel(static_cast<int>(kEach * all.size()), [&](int i) {
      const size_t kernel = static_cast<size_t>(i) / kEach;
      const auto graph =
          ir::parse_graph(text_of(projections_of(kernel, static_cast<size_t>(i) % kEach)));
      const auto made = make(*graph, all[kernel], mode_of(kernel));
      joint += made && made->is_joint();
    });
    EXPECT_GE(joint, all.size() / 2);
  }
};

TEST_P(TogetherOnDevice, IsRight) {
  const std::string kernel = names()[GetParam()];
  for (size_t i = 0; i < kEach; ++i)
    run_together(projections_of(GetParam(), i), kernel, mode_of(GetParam()));
}

INSTANTIATE_TEST_SUITE_P(Templates, TogetherOnDevice, ::testing::Range(size_t{0}, names().size()),
                         [](const ::testing::TestParamInfo<size_t>& info) {
                           return names()[info.param];
                         });

}  // namespace
}  // namespace attacca::testing
