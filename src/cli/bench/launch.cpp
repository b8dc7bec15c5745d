#include <algorithm>
#include <chrono>
#include <functional>

#include "fmt/format.h"

#include "cli/bench/problem.hpp"
#include "launch/fused.hpp"
#include "run/pipeline.hpp"
#include "support/text/json.hpp"
#include "tune/measure.hpp"

namespace attacca::cli {
namespace {

constexpr int kBatches = 50;

// The host's microseconds for a launch, median over batches of `count` launches. The wait after
// each batch is not counted; it keeps the driver's queue from filling.
Result<double> host_time(const gpu::Stream& stream, int count,
                         const std::function<Status(int)>& launch) {
  using Clock = std::chrono::steady_clock;
  std::vector<double> batches;
  for (int batch = 0; batch < kBatches; ++batch) {
    const auto begin = Clock::now();
    for (int i = 0; i < count; ++i) ATTACCA_TRY_VOID(launch(i));
    batches.push_back(std::chrono::duration<double, std::micro>(Clock::now() - begin).count() /
                      count);
    ATTACCA_TRY_VOID(stream.synchronize());
  }
  std::nth_element(batches.begin(), batches.begin() + kBatches / 2, batches.end());
  return batches[kBatches / 2];
}

// The launches of one template, beginning with the driver's own.
Result<json::Value> measure(const std::shared_ptr<launch::Toolbox>& toolbox,
                            const std::string& name, const BenchGemmArgs& args, int count) {
  const gpu::Device& device = toolbox->device();
  ATTACCA_TRY(const Placed placed, place_in(toolbox->catalog(), name, args, &device.info()));
  ATTACCA_TRY(const auto runnable, launch::make_fused(toolbox, placed.problem, placed.candidate));
  ATTACCA_TRY(const tune::OperandSets operands, tune::OperandSets::make(toolbox, placed.problem));
  ATTACCA_TRY(const auto workspace,
              gpu::DeviceMemory::allocate(device, runnable->workspace_bytes()));
  ATTACCA_TRY(const gpu::Stream stream, gpu::Stream::create(device));
  const auto launch_set = [&](size_t set) {
    return runnable->launch(operands[set], workspace.pointer(), stream.get());
  };
  ATTACCA_TRY_VOID(launch_set(0));
  ATTACCA_TRY_VOID(stream.synchronize());
  ATTACCA_TRY(const double same, host_time(stream, count, [&](int) { return launch_set(0); }));
  json::Value line = json::Value::object()
                         .set("template", name)
                         .set("epilogue", args.epilogue)
                         .set("m", args.m)
                         .set("n", args.n)
                         .set("k", args.k)
                         .set("same_operands_us", same);
  if (operands.size() > 1) {
    ATTACCA_TRY(const double changing, host_time(stream, count, [&](int i) {
                  return launch_set(static_cast<size_t>(i) % operands.size());
                }));
    line.set("changing_operands_us", changing);
  }
  return line;
}

// A plan's launch, as by the C and C++ API.
Result<json::Value> measure_plan(const std::shared_ptr<launch::Toolbox>& toolbox,
                                 const BenchGemmArgs& args, int count) {
  const gpu::Device& device = toolbox->device();
  ATTACCA_TRY(const ir::Graph graph, bench_graph(args));
  const auto target = run::Target::cuda(device, *ir::parse_mode(args.mode));
  ATTACCA_TRY(const run::Compiled compiled, run::compile(graph, target));
  ATTACCA_TRY(const auto instance, compiled.cuda().instance(bench_sizes(args)));
  // One buffer of the largest operand's size serves all operands: the host's time does not depend
  // on it.
  const auto bytes =
      static_cast<size_t>(8 * std::max({args.m * args.k, args.n * args.k, args.m * args.n}));
  ATTACCA_TRY(const auto input, gpu::DeviceMemory::allocate(device, bytes));
  ATTACCA_TRY(const auto output, gpu::DeviceMemory::allocate(device, bytes));
  ATTACCA_TRY(const auto workspace,
              gpu::DeviceMemory::allocate(device, instance->workspace_bytes()));
  ATTACCA_TRY(const gpu::Stream stream, gpu::Stream::create(device));
  const std::vector<void*> inputs(graph.inputs().size(), input.pointer());
  const std::vector<void*> outputs(graph.outputs().size(), output.pointer());
  const auto launch = [&](int) {
    return instance->launch(inputs, outputs, workspace.pointer(), stream.get());
  };
  ATTACCA_TRY_VOID(launch(0));
  ATTACCA_TRY_VOID(stream.synchronize());
  ATTACCA_TRY(const double microseconds, host_time(stream, count, launch));
  return json::Value::object()
      .set("plan", to_string(instance->decisions()[0].candidate))
      .set("epilogue", args.epilogue)
      .set("m", args.m)
      .set("n", args.n)
      .set("k", args.k)
      .set("plan_us", microseconds);
}

// An empty kernel launched by the driver: no launch can take less time.
Result<double> empty_kernel(const gpu::Device& device, int count) {
  static constexpr char kPtx[] =
      ".version 8.0\n.target sm_80\n.address_size 64\n"
      ".visible .entry nothing(.param .u32 unused) { ret; }\n";
  ATTACCA_TRY(const gpu::Module module, gpu::Module::load(device, kPtx));
  ATTACCA_TRY(const gpu::Function function, module.function("nothing"));
  ATTACCA_TRY(const gpu::Stream stream, gpu::Stream::create(device));
  int unused = 0;
  void* parameters[] = {&unused};
  return host_time(stream, count,
                   [&](int) { return function.launch({}, stream.get(), parameters); });
}

Result<int> try_launch(const BenchKernelArgs& args) {
  ATTACCA_TRY(const int gpu, bench_gpu(args.gemm));
  ATTACCA_TRY(const auto toolbox, launch::Toolbox::open(gpu));
  ATTACCA_TRY_VOID(toolbox->device().make_current());
  ATTACCA_TRY(const double nothing, empty_kernel(toolbox->device(), args.count));
  fmt::print("{}\n", json::dump(json::Value::object()
                                    .set("device", toolbox->device().info().name)
                                    .set("empty_kernel_us", nothing),
                                -1));
  BenchGemmArgs one = args.gemm;
  one.epilogue = args.epilogues[0];
  auto plan = measure_plan(toolbox, one, args.count);
  if (!plan) plan = json::Value::object().set("plan", "").set("failed", plan.error().what);
  fmt::print("{}\n", json::dump(*plan, -1));
  for (const std::string& kernel : template_names(toolbox->catalog(), args.templates)) {
    auto line = measure(toolbox, kernel, one, args.count);
    if (!line)
      line = json::Value::object().set("template", kernel).set("failed", line.error().what);
    fmt::print("{}\n", json::dump(*line, -1));
  }
  return kOk;
}

}  // namespace

int bench_launch(const BenchKernelArgs& args) {
  return exit_code(try_launch(args));
}

}  // namespace attacca::cli
