// A plan computed several times by one launch whose inputs come while it runs: every template that
// can, on a device, against f64. The host sends rows, and then their word, when the launch waits.
#include <chrono>
#include <cstring>
#include <gtest/gtest.h>
#include <thread>

#include "fmt/format.h"

#include "device/harness.hpp"
#include "ir/text/text.hpp"
#include "run/check/random_inputs.hpp"
#include "run/parts/parts.hpp"
#include "run/pipeline.hpp"

namespace attacca::testing {
namespace {

constexpr size_t kParts = 3;
constexpr uint32_t kHere = 1, kMostMs = 5000;
constexpr Extents kShapes[] = {
    {1, 64, 256}, {17, 136, 320}, {130, 264, 512}, {515, 1032, 192}, {256, 1024, 1024}};

std::string text_of(const Extents& shape, bool is_gate) {
  const std::string inputs = fmt::format("x: bf16[{0}, {2}], w: bf16[{1}, {2}], v: bf16[{1}, {2}]",
                                         shape.m, shape.n, shape.k);
  return fmt::format(
      "graph g({}) {{ return y = {} }}", inputs,
      is_gate ? "silu(x @ transpose(w)) * (x @ transpose(v))" : "silu(x @ transpose(w))");
}

// One part on the host and on the device.
struct Part {
  ir::Bindings inputs;
  gpu::PinnedMemory rows;
  gpu::DeviceMemory x, y;
};

Result<gpu::DeviceMemory> uploaded(const ir::Tensor& tensor) {
  const auto bytes = static_cast<size_t>(tensor.bytes());
  ATTACCA_TRY(auto memory, gpu::DeviceMemory::allocate(toolbox()->device(), bytes));
  ATTACCA_TRY_VOID(memory.copy_from(tensor.data(), bytes));
  ATTACCA_TRY_VOID(toolbox()->device().synchronize());
  return memory;
}

// The parts' results; the first part is here before the launch.
Result<std::vector<ir::Tensor>> launched(const run::CudaParts& parts, const ir::Graph& graph,
                                         std::vector<Part>& all) {
  const gpu::Device& device = toolbox()->device();
  ATTACCA_TRY(const auto w, uploaded(all[0].inputs.at("w")));
  ATTACCA_TRY(const auto v, uploaded(all[0].inputs.at("v")));
  ATTACCA_TRY(auto words, gpu::DeviceMemory::allocate(device, kParts * sizeof(uint32_t)));
  ATTACCA_TRY_VOID(words.fill(0));
  // Of each part a word that it writes behind its results, and a counter.
  std::vector<uint32_t> reported(2 * kParts);
  const size_t reported_bytes = reported.size() * sizeof(uint32_t);
  ATTACCA_TRY(auto reports, gpu::DeviceMemory::allocate(device, reported_bytes));
  ATTACCA_TRY_VOID(reports.fill(0));
  ATTACCA_TRY(auto value, gpu::PinnedMemory::allocate(device, sizeof(uint32_t)));
  std::memcpy(value.pointer(), &kHere, sizeof kHere);
  std::vector<void*> inputs, outputs;
  std::vector<ptx::Signals> signals;
  ATTACCA_TRY(ir::Tensor result,
              ir::Tensor::make(graph.type(graph.outputs()[0].value).dtype,
                               *evaluate(graph.type(graph.outputs()[0].value).shape, {})));
  for (size_t i = 0; i < kParts; ++i) {
    Part& part = all[i];
    const ir::Tensor& x = part.inputs.at("x");
    const auto bytes = static_cast<size_t>(x.bytes());
    ATTACCA_TRY(part.x, gpu::DeviceMemory::allocate(device, bytes));
    ATTACCA_TRY_VOID(part.x.fill(0xff));
    ATTACCA_TRY(part.y, gpu::DeviceMemory::allocate(device, static_cast<size_t>(result.bytes())));
    ATTACCA_TRY_VOID(part.y.fill(0xff));
    ATTACCA_TRY(part.rows, gpu::PinnedMemory::allocate(device, bytes));
    std::memcpy(part.rows.pointer(), x.data(), bytes);
    if (i == 0) ATTACCA_TRY_VOID(part.x.copy_from(part.rows.pointer(), bytes));
    for (void* const input : {part.x.pointer(), w.pointer(), v.pointer()}) inputs.push_back(input);
    outputs.push_back(part.y.pointer());
    const uint64_t word = words.address() + i * sizeof(uint32_t);
    const uint64_t report = reports.address() + 2 * i * sizeof(uint32_t);
    signals.push_back({{i == 0 ? 0 : word, kHere, kMostMs},
                       {report, report + sizeof(uint32_t), static_cast<uint32_t>(i + 1)}});
  }
  ATTACCA_TRY_VOID(device.synchronize());
  ATTACCA_TRY(const auto main, gpu::Stream::create(device));
  ATTACCA_TRY(const auto side, gpu::Stream::create(device));
  ATTACCA_TRY_VOID(parts.launch(inputs, outputs, signals, main.get()));
  for (size_t i = 1; i < kParts; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    ATTACCA_TRY_VOID(all[i].x.copy_from(all[i].rows.pointer(), all[i].rows.size(), side.get()));
    ATTACCA_TRY_VOID(
        words.copy_from(value.pointer(), sizeof kHere, side.get(), i * sizeof(uint32_t)));
  }
  ATTACCA_TRY_VOID(side.synchronize());
  ATTACCA_TRY_VOID(main.synchronize());
  ATTACCA_TRY_VOID(reports.copy_to(reported.data(), reported_bytes));
  ATTACCA_TRY_VOID(device.synchronize());
  EXPECT_EQ(reported, (std::vector<uint32_t>{1, 0, 2, 0, 3, 0}));
  std::vector<ir::Tensor> results;
  for (Part& part : all) {
    ATTACCA_TRY(result, ir::Tensor::make(result.dtype(), result.shape()));
    ATTACCA_TRY_VOID(part.y.copy_to(result.data(), static_cast<size_t>(result.bytes())));
    ATTACCA_TRY_VOID(device.synchronize());
    results.push_back(result);
  }
  return results;
}

class AwaitedPartsOnDevice : public ::testing::TestWithParam<std::string> {
 protected:
  static void TearDownTestSuite() { EXPECT_GE(2 * computed_, asked_) << "most compute parts"; }
  static inline int asked_ = 0, computed_ = 0;
};

// Whether the template computes the parts.
bool run_parts(const std::string& kernel, const Extents& shape, bool is_gate, ir::Mode mode) {
  const auto graph = ir::parse_graph(text_of(shape, is_gate));
  EXPECT_TRUE(graph) << (graph ? "" : to_string(graph.error()));
  run::Options options;
  options.cuda.tuning = run::Tuning::Model;
  options.cuda.tune_options.filter.allow = {kernel};
  const auto plan = run::compile(*graph, device_target(mode), options);
  EXPECT_TRUE(plan) << (plan ? "" : to_string(plan.error()));
  if (!plan) return false;
  const auto parts = run::make_parts(plan->cuda(), {}, {}, kParts);
  if (!parts) {
    EXPECT_NE(parts.error().what.find("no template computes"), std::string::npos)
        << to_string(parts.error());
    return false;
  }
  EXPECT_EQ((*parts)->candidate().kernel, kernel);
  std::vector<Part> all(kParts);
  for (size_t i = 0; i < kParts; ++i) {
    all[i].inputs = *run::random_inputs(*graph, {}, 7 + i);
    for (const char* shared : {"w", "v"}) all[i].inputs.at(shared) = all[0].inputs.at(shared);
  }
  const auto results = launched(**parts, *graph, all);
  EXPECT_TRUE(results) << kernel << (results ? "" : to_string(results.error()));
  if (!results) return true;
  for (size_t i = 0; i < kParts; ++i) {
    const auto each = make_case(*graph, {}, mode, all[i].inputs);
    EXPECT_TRUE(each) << (each ? "" : to_string(each.error()));
    if (!each) continue;
    EXPECT_EQ("", compare_with_reference(*each, {(*results)[i]}))
        << kernel << ", part " << i << " of " << to_string(shape);
  }
  return true;
}

TEST_P(AwaitedPartsOnDevice, AreRight) {
  const std::string& kernel = GetParam();
  const bool is_gate = toolbox()->catalog().find(kernel)->hole.accumulators == 2;
  int ran = 0;
  for (const Extents& shape : kShapes) {
    const ir::Mode mode = ran % 2 == 0 ? ir::Mode::Fp32 : ir::Mode::Eager;
    ran += run_parts(kernel, shape, is_gate, mode);
  }
  ++asked_;
  computed_ += ran > 0;
  fmt::print("{} of {} shapes ran\n", ran, std::size(kShapes));
}

std::vector<std::string> names() {
  std::vector<std::string> all;
  for (const templates::Template& kernel : toolbox()->catalog().templates())
    if (kernel.family == templates::Family::Gemm && takes(kernel, ir::DType::BF16) &&
        !kernel.widened && !kernel.scaled_blocks && !kernel.grouped && kernel.packed_bits == 0 &&
        !kernel.name.starts_with("cutlass_"))
      all.push_back(kernel.name);
  return all;
}

INSTANTIATE_TEST_SUITE_P(Templates, AwaitedPartsOnDevice, ::testing::ValuesIn(names()),
                         template_test_name);

}  // namespace
}  // namespace attacca::testing
