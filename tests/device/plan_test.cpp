// Whole graphs on a device: the examples, random graphs, CUDA graphs, streams, empty extents.
#include <cstdlib>
#include <filesystem>
#include <gtest/gtest.h>
#include <thread>

#include "fmt/format.h"

#include "device/harness.hpp"
#include "differential/random_graph.hpp"
#include "ir/text/text.hpp"
#include "requirements/graphs.hpp"
#include "run/check/compare.hpp"
#include "run/check/random_inputs.hpp"
#include "run/cuda/timing.hpp"
#include "run/pipeline.hpp"
#include "setting.hpp"

namespace attacca::testing {
namespace {

using ir::Tensor;

Result<std::vector<Tensor>> run_on_device(const ir::Graph& graph, const ir::Bindings& inputs,
                                          ir::Mode mode = ir::Mode::Fp32) {
  ATTACCA_TRY(const run::Compiled plan, run::compile(graph, device_target(mode)));
  return plan.run(inputs);
}

// Empty if every output's error against f64 is at most the op-by-op interpreter's plus one last
// place.
std::string compare_graph(const ir::Graph& graph, const ir::Bindings& inputs,
                          const std::vector<Tensor>& outputs) {
  const auto exact = ir::interpret(graph, inputs);
  const auto eager =
      ir::interpret(graph, inputs, {.precision = ir::Precision::Eager, .accumulators = {}});
  std::string report;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const run::Difference got = run::compare(outputs[i], (*exact)[i]);
    const run::Difference want = run::compare((*eager)[i], (*exact)[i]);
    const double place = ir::is_float(outputs[i].dtype()) ? 0x1p-7 * got.scale : 1;
    if (got.largest > 1.5 * want.largest + place || got.mismatched_nan > want.mismatched_nan)
      report += fmt::format("output {}: error {:.3g} against {:.3g}, scale {:.3g}, {} NaN; ", i,
                            got.largest, want.largest, got.scale, got.mismatched_nan);
  }
  return report;
}

// ATTACCA_EXAMPLES where the tests run away from their source.
std::string examples() {
  const char* given = std::getenv("ATTACCA_EXAMPLES");
  return given != nullptr ? given : ATTACCA_SOURCE_DIR "/examples";
}

TEST(Plans, ExamplesAreRight) {
  int ran = 0;
  for (const auto& entry : std::filesystem::directory_iterator(examples())) {
    const std::string path = entry.path().string();
    if (entry.path().extension() != ".attacca") continue;
    const auto graph = run::load_graph(path);
    ASSERT_TRUE(graph) << to_string(graph.error());
    for (const int64_t m : {1, 17}) {
      ir::SymbolValues symbols;
      for (const std::string& symbol : graph->symbols()) symbols[symbol] = m;
      const auto inputs = run::random_inputs(*graph, symbols, 5);
      ASSERT_TRUE(inputs) << to_string(inputs.error());
      const auto outputs = run_on_device(*graph, *inputs);
      ASSERT_TRUE(outputs) << path << to_string(outputs.error());
      EXPECT_EQ("", compare_graph(*graph, *inputs, *outputs)) << path << " M=" << m;
      ++ran;
    }
  }
  EXPECT_GT(ran, 0);
}

struct Requirements : ::testing::TestWithParam<requirements::Requirement> {};

TEST_P(Requirements, ComputeAsTheUnfusedGraphOrBetter) {
  const auto graph = ir::parse_graph(GetParam().text);
  ASSERT_TRUE(graph) << to_string(graph.error());
  for (const ir::Mode mode : {ir::Mode::Fp32, ir::Mode::Eager})
    for (const int64_t m : {1, 17, 48, 129, 2040}) {
      const auto inputs = run::random_inputs(*graph, {{"M", m}}, 3);
      ASSERT_TRUE(inputs) << to_string(inputs.error());
      const auto outputs = run_on_device(*graph, *inputs, mode);
      ASSERT_TRUE(outputs) << to_string(outputs.error());
      EXPECT_EQ("", compare_graph(*graph, *inputs, *outputs)) << name(mode) << " M=" << m;
    }
}

INSTANTIATE_TEST_SUITE_P(ByName, Requirements, ::testing::ValuesIn(requirements::kRequirements),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(Plans, RandomGraphs) {
  const uint64_t count = setting("ATTACCA_GRAPHS", 200);
  int wrong = 0;
  for (uint64_t seed = 1; seed <= count && wrong < 10; ++seed) {
    const ir::Graph graph = random_graph(seed);
    const ir::Bindings inputs = random_bindings(graph, seed);
    const auto outputs = run_on_device(graph, inputs);
    const std::string report =
        outputs ? compare_graph(graph, inputs, *outputs) : to_string(outputs.error());
    EXPECT_EQ("", report) << "seed " << seed;
    wrong += !report.empty();
  }
}

Result<run::Compiled> gemm_plan(const std::string& epilogue) {
  run::GemmForm form{.epilogue = epilogue, .text = {}};
  ATTACCA_TRY(const ir::Graph graph, run::gemm_graph(form));
  return run::compile(graph, device_target());
}

TEST(Plans, EmptyAndSmallestExtents) {
  const auto plan = gemm_plan("silu(acc + row(bias))");
  ASSERT_TRUE(plan) << to_string(plan.error());
  for (const Extents& e : {Extents{0, 64, 64}, Extents{3, 1, 8}, Extents{3, 8, 1}, Extents{1, 1, 1},
                           Extents{4, 8, 0}}) {
    run::GemmForm form{.epilogue = "silu(acc + row(bias))", .text = {}};
    const auto graph = run::gemm_graph(form);
    const auto inputs = run::random_inputs(*graph, {{"M", e.m}, {"N", e.n}, {"K", e.k}}, 1);
    ASSERT_TRUE(inputs) << to_string(inputs.error());
    const auto outputs = plan->run(*inputs);
    ASSERT_TRUE(outputs) << to_string(e) << to_string(outputs.error());
    EXPECT_EQ("", compare_graph(*graph, *inputs, *outputs)) << to_string(e);
  }
}

// Launches recorded in a CUDA graph, replayed on new data in the same buffers.
// Moving, sorting and counting, exactly.
TEST(Plans, OpsWithKernelsOfTheirOwn) {
  for (const int64_t rows : {1, 9, 300}) {
    const auto graph = ir::parse_graph(
        fmt::format("graph g(x: f32[{0}, 7], i: s64[30], u: f32[30, 7], o: s32[6]) {{\n"
                    "  s = scatter(x, i, u)\n"
                    "  return s, argsort(s), argsort(x, axis=1), gather(s, i), arange([-2, {0}]),\n"
                    "         group_ids(o, [{0}]), group_ids(o[1::2], [2000])\n}}\n",
                    rows),
        "<test>");
    ASSERT_TRUE(graph) << to_string(graph.error());
    Tensor index = *Tensor::make(ir::DType::S64, {30});
    for (int64_t i = 0; i < 30; ++i)
      index.set_integer(i, (i * 17 + 5) % rows - (i % 2 == 0 ? rows : 0));
    const auto inputs = run::random_inputs(*graph, {}, 1, {{"i", index}});
    ASSERT_TRUE(inputs) << to_string(inputs.error());
    const auto got = run_on_device(*graph, *inputs);
    ASSERT_TRUE(got) << to_string(got.error());
    const auto want = ir::interpret(*graph, *inputs);
    for (size_t output = 0; output < got->size(); ++output)
      for (int64_t at = 0; at < (*want)[output].size(); ++at)
        ASSERT_EQ((*got)[output].number_at(at), (*want)[output].number_at(at))
            << rows << " rows, output " << output << " at " << at;
  }
}

// A plan's launches recorded in a CUDA graph, replayed on new data in the same buffers.
void expect_captured(const std::string& text) {
  const auto parsed = ir::parse_graph(text);
  ASSERT_TRUE(parsed) << to_string(parsed.error());
  const ir::Graph& graph = *parsed;
  const auto plan = run::compile(graph, device_target());
  ASSERT_TRUE(plan) << to_string(plan.error());
  const auto instance = plan->cuda().instance({});
  ASSERT_TRUE(instance) << to_string(instance.error());
  const gpu::Device& device = toolbox()->device();
  std::vector<gpu::DeviceMemory> memory;
  std::vector<void*> inputs, outputs;
  const auto first = *run::random_inputs(graph, {}, 1);
  for (const ir::Value value : graph.inputs()) {
    memory.push_back(*gpu::DeviceMemory::allocate(
        device, static_cast<size_t>(first.at(graph[value].name).bytes())));
    inputs.push_back(memory.back().pointer());
  }
  const std::vector<int64_t> shape = (*instance)->output_shapes()[0];
  Tensor output = *Tensor::make(graph.type(graph.outputs()[0].value).dtype, shape);
  const auto bytes = static_cast<size_t>(output.bytes());
  auto result = *gpu::DeviceMemory::allocate(device, bytes);
  outputs.push_back(result.pointer());
  const auto workspace = *gpu::DeviceMemory::allocate(device, (*instance)->workspace_bytes());
  const auto stream = *gpu::Stream::create(device);
  const auto captured = gpu::GraphExec::capture(device, stream.get(), [&] {
    return (*instance)->launch(inputs, outputs, workspace.pointer(), stream.get());
  });
  ASSERT_TRUE(captured) << to_string(captured.error());
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    const auto data = *run::random_inputs(graph, {}, seed);
    for (size_t i = 0; i < inputs.size(); ++i) {
      const Tensor& tensor = data.at(graph[graph.inputs()[i]].name);
      ASSERT_TRUE(memory[i].copy_from(tensor.data(), static_cast<size_t>(tensor.bytes())));
    }
    ASSERT_TRUE(result.fill(0xff));
    ASSERT_TRUE(device.synchronize());
    ASSERT_TRUE(captured->launch(stream.get()));
    ASSERT_TRUE(result.copy_to(output.data(), bytes, stream.get()));
    ASSERT_TRUE(stream.synchronize());
    EXPECT_EQ("", compare_graph(graph, data, {output}));
  }
}

struct Captured {
  const char *name, *types, *result;
};
void PrintTo(const Captured& each, std::ostream* out) {
  *out << each.name;
}
const Captured kCaptured[] = {
    {"bf16", "x: bf16[{}, 256], w: bf16[384, 256], b: bf16[384]", "gelu(x @ transpose(w) + b)"},
    {"f8", "x: f8e4m3[{}, 256], w: f8e4m3[384, 256], u: f32[{}, 1], v: f32[384], b: bf16[384]",
     "cast(silu(x @ transpose(w) * u * v + cast(b, f32)), bf16)"},
    {"f8Fast", "x: f8e4m3[{}, 256], w: f8e4m3[384, 256], u: f32[], v: f32[]",
     "cast(silu(matmul(x, transpose(w), fast=true) * u * v), bf16)"},
    {"f8ByBlocks",
     "x: f8e4m3[{}, 256], w: f8e4m3[384, 256], u: f32[{}, 2], v: f32[3, 2], b: bf16[384]",
     "cast(silu(dequantize(x, u, block=[1, 128]) @ transpose(dequantize(w, v, block=[128, 128])) + "
     "cast(b, f32)), bf16)"},
    {"int8", "x: s8[{}, 256], w: s8[384, 256], u: f32[{}, 1], v: f32[384], b: bf16[384]",
     "cast(silu(cast(x @ transpose(w), f32) * u * v + cast(b, f32)), bf16)"},
    {"int8Requantized", "x: s8[{}, 256], w: s8[384, 256], v: f32[384]",
     "cast(round(relu(cast(x @ transpose(w), f32) * v * 0.01)), s8, saturate=true)"},
    {"bf16ByInt8", "x: bf16[{}, 256], w: s8[384, 256], v: bf16[384]",
     "silu((x @ transpose(cast(w, bf16))) * v)"},
};

struct CudaGraphs : ::testing::TestWithParam<Captured> {};

TEST_P(CudaGraphs, RecordPlans) {
  for (const int64_t rows : {16, 64, 200}) {
    std::string types = GetParam().types;
    for (size_t at; (at = types.find("{}")) != std::string::npos;)
      types.replace(at, 2, std::to_string(rows));
    SCOPED_TRACE(rows);
    expect_captured(fmt::format("graph g({}) {{ return {} }}", types, GetParam().result));
  }
}
INSTANTIATE_TEST_SUITE_P(Plans, CudaGraphs, ::testing::ValuesIn(kCaptured),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(Plans, AreTimedInTurns) {
  const run::GemmForm form{.epilogue = "gelu(acc + row(bias))", .text = {}};
  const ir::Graph graph = *run::gemm_graph(form);
  const ir::SymbolValues symbols{{"M", 64}, {"N", 256}, {"K", 128}};
  const auto inputs = *run::random_inputs(graph, symbols, 1);
  std::vector<std::shared_ptr<const run::CudaInstance>> instances;
  const auto fused = run::compile(graph, device_target());
  const auto unfused =
      run::compile(graph, device_target(), {.cuda = {.tuning = run::Tuning::Unfused}});
  for (const auto* plan : {&fused, &unfused}) {
    ASSERT_TRUE(*plan) << to_string(plan->error());
    const auto instance = (*plan)->cuda().instance(symbols);
    ASSERT_TRUE(instance) << to_string(instance.error());
    instances.push_back(*instance);
  }
  const auto seconds = run::time_instances(fused->cuda(), inputs, instances, 5);
  ASSERT_TRUE(seconds) << to_string(seconds.error());
  ASSERT_EQ(seconds->size(), 2u);
  for (const std::vector<double>& each : *seconds) {
    ASSERT_EQ(each.size(), 5u);
    for (const double value : each) EXPECT_TRUE(value > 1e-7 && value < 1e-2) << value;
  }
}

// One plan, many threads, each with its own stream: results are those of a single thread.
TEST(Plans, RunFromManyThreads) {
  const auto plan = gemm_plan("silu(acc + row(bias)) * full(res)");
  ASSERT_TRUE(plan) << to_string(plan.error());
  run::GemmForm form{.epilogue = "silu(acc + row(bias)) * full(res)", .text = {}};
  const ir::Graph graph = *run::gemm_graph(form);
  std::vector<std::string> failures(8);
  std::vector<std::jthread> threads;
  for (size_t t = 0; t < failures.size(); ++t)
    threads.emplace_back([&, t] {
      for (int64_t m = 1; m <= 9 && failures[t].empty(); m += 4) {
        const auto inputs = *run::random_inputs(graph, {{"M", m}, {"N", 128}, {"K", 64}}, t + 1);
        const auto outputs = plan->run(inputs);
        failures[t] = outputs ? compare_graph(graph, inputs, *outputs) : to_string(outputs.error());
      }
    });
  threads.clear();
  for (const std::string& failure : failures) EXPECT_EQ("", failure);
}

}  // namespace
}  // namespace attacca::testing
