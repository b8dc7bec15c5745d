#include "fmt/format.h"

#include "cli/bench/problem.hpp"
#include "launch/fused.hpp"
#include "support/files/file.hpp"
#include "support/text/json.hpp"
#include "tune/measure.hpp"

namespace attacca::cli {
namespace {

constexpr int kRounds = 15;

Status describe(json::Value& line, const std::string& prefix, const launch::Kernel& kernel,
                double seconds) {
  ATTACCA_TRY(const int registers, kernel.function.registers());
  ATTACCA_TRY(const int local, kernel.function.local_bytes());
  line.set(prefix + "_us", seconds * 1e6)
      .set(prefix + "_registers", registers)
      .set(prefix + "_local_bytes", local);
  return {};
}

Result<json::Value> compare(const BenchGemmArgs& args, const std::string& name,
                            const std::string& image) {
  ATTACCA_TRY(const int gpu, bench_gpu(args));
  ATTACCA_TRY(const auto toolbox, launch::Toolbox::open(gpu));
  ATTACCA_TRY(const Placed placed,
              place_in(toolbox->catalog(), name, args, &toolbox->device().info()));
  ATTACCA_TRY(const auto spliced, toolbox->kernel(placed.request));
  ATTACCA_TRY(const std::string bytes, read_file(image));
  ATTACCA_TRY(launch::Kernel loaded,
              launch::load_kernel(toolbox->device(), bytes, placed.kernel->kernel, placed.kernel));
  const auto whole = std::make_shared<const launch::Kernel>(std::move(loaded));
  ATTACCA_TRY(const tune::OperandSets operands, tune::OperandSets::make(toolbox, placed.problem));
  std::vector<std::unique_ptr<launch::Runnable>> runnables;
  std::vector<tune::Timed> timed;
  for (const auto& kernel : {spliced, whole}) {
    auto runnable = launch::make_fused(toolbox, placed.problem, placed.candidate, kernel);
    ATTACCA_TRY(tune::Timed one,
                tune::Timed::make(toolbox, tune::launches_of(*runnable, operands.all())));
    runnables.push_back(std::move(runnable));
    timed.push_back(std::move(one));
  }
  ATTACCA_TRY(const std::vector<double> medians,
              tune::time_in_turns(timed, kRounds, tune::Pace::Rested));
  json::Value line = json::Value::object()
                         .set("template", name)
                         .set("epilogue", args.epilogue)
                         .set("m", args.m)
                         .set("n", args.n)
                         .set("k", args.k);
  ATTACCA_TRY_VOID(describe(line, "spliced", *spliced, medians[0]));
  ATTACCA_TRY_VOID(describe(line, "whole", *whole, medians[1]));
  return line;
}

Result<int> try_whole(const BenchKernelArgs& args) {
  if (args.templates.size() != 1 || args.epilogues.size() != 1)
    return fail("give one template and one epilogue", "bench whole");
  BenchGemmArgs gemm = args.gemm;
  gemm.epilogue = args.epilogues[0];
  if (!args.source) {
    ATTACCA_TRY(const json::Value line, compare(gemm, args.templates[0], args.image));
    fmt::print("{}\n", json::dump(line, -1));
    return kOk;
  }
  ATTACCA_TRY(const templates::Catalog catalog, templates::Catalog::open(nullptr));
  ATTACCA_TRY(const Placed placed, place_in(catalog, args.templates[0], gemm, nullptr));
  epilogue::CudaOptions options;
  options.mode = placed.request.mode;
  fmt::print("{}", epilogue::emit_cuda(placed.request.epilogue, placed.kernel->hole,
                                       *placed.candidate.binding, options));
  return kOk;
}

}  // namespace

int bench_whole(const BenchKernelArgs& args) {
  return exit_code(try_whole(args));
}

}  // namespace attacca::cli
