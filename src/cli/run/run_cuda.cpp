#include "cli/run/run_cuda.hpp"

#include "fmt/format.h"

#include "cli/run/run_report.hpp"
#include "cli/tune/tune_progress.hpp"
#include "gpu/driver/device.hpp"
#include "run/cuda/timing.hpp"
#include "run/pipeline.hpp"
#include "support/progress.hpp"

namespace attacca::cli {
namespace {

constexpr int kRounds = 21;

// A plan, and its instance for the job's sizes.
struct Prepared {
  std::vector<fold::Applied> folds;
  run::CudaPlan plan;
  std::shared_ptr<const run::CudaInstance> instance;
};

Result<Prepared> prepare(const Job& job, const run::CudaOptions& options) {
  run::Prepared folded = run::prepare(job.graph, options.mode, options.fuse);
  ATTACCA_TRY(run::CudaPlan plan, run::CudaPlan::compile(folded.folded.graph, options));
  ATTACCA_TRY(auto instance, plan.instance(job.symbols));
  return Prepared{std::move(folded.folded.applied), std::move(plan), std::move(instance)};
}

Result<Prepared> prepare_fused(const Job& job, const RunArgs& args, run::CudaOptions options) {
  if (!args.tune) {
    const Progress progress("compiling");
    return prepare(job, options);
  }
  TuneProgress progress;
  options.tuning = run::Tuning::Measure;
  options.tune_options.progress = progress.callback();
  return prepare(job, options);
}

// `unfused`: null if there is none.
Result<Timing> time_paths(const Job& job, const Prepared& fused, const Prepared* unfused) {
  const Progress progress("timing");
  std::vector instances = {fused.instance};
  if (unfused != nullptr) instances.push_back(unfused->instance);
  ATTACCA_TRY(auto seconds, run::time_instances(fused.plan, job.inputs, instances, kRounds));
  for (std::vector<double>& each : seconds)
    for (double& value : each) value *= 1e3;
  seconds.resize(2);
  return summarize(seconds[0], seconds[1]);
}

}  // namespace

Status check_cuda(int ordinal) {
  auto device = gpu::Device::open(ordinal);
  if (device) return {};
  Error error = std::move(device).error();
  if (error.where.empty()) error.where = fmt::format("--device cuda:{}", ordinal);
  return tl::make_unexpected(std::move(error));
}

Result<int> run_on_cuda(const RunArgs& args, const Job& job, int ordinal) {
  const run::CudaOptions options{.mode = *ir::parse_mode(args.mode), .device = ordinal};
  ATTACCA_TRY(const Prepared fused, prepare_fused(job, args, options));
  run::CudaOptions other = options;
  other.unfused = true;
  const auto unfused = prepare(job, other);
  ATTACCA_TRY(const auto outputs, fused.plan.run(job.inputs));
  if (!args.output.empty()) ATTACCA_TRY_VOID(write_outputs(job, outputs, args.output));
  RunReport report{args,
                   job,
                   fused.folds,
                   fused.plan.partition(),
                   fused.plan.toolbox()->device().info().name,
                   "unfused"};
  report.decisions = fused.instance->decisions();
  if (!unfused) report.no_other = unfused.error().what;
  ATTACCA_TRY(report.timing, time_paths(job, fused, unfused ? &*unfused : nullptr));
  if (args.check) {
    other.fuse = false;
    ATTACCA_TRY(const Prepared op_by_op, prepare(job, other));
    ATTACCA_TRY(const auto reference, op_by_op.plan.run(job.inputs));
    ATTACCA_TRY(report.checks, check_outputs(job, options.mode, outputs, reference));
  }
  return print(report);
}

}  // namespace attacca::cli
