#include "cli/run/run_cuda.hpp"

#include "cli/run/run_report.hpp"
#include "cli/tune_progress.hpp"
#include "run/cuda/timing.hpp"
#include "run/pipeline.hpp"
#include "support/progress.hpp"

namespace attacca::cli {
namespace {

constexpr int kRounds = 21;

// A plan, and its instance for the job's sizes.
struct Path {
  run::Compiled compiled;
  std::shared_ptr<const run::CudaInstance> instance;

  const run::CudaPlan& plan() const { return compiled.cuda(); }
};

Result<Path> make_path(const Job& job, const run::Target& target, const run::CudaOptions& options) {
  ATTACCA_TRY(run::Compiled compiled, run::compile(job.graph, target, {.cuda = options}));
  ATTACCA_TRY(auto instance, compiled.cuda().instance(job.symbols));
  return Path{std::move(compiled), std::move(instance)};
}

Result<Path> make_fused(const Job& job, const RunArgs& args, const run::Target& target) {
  if (!args.tune) {
    const Progress progress("compiling");
    return make_path(job, target, {});
  }
  TuneProgress progress;
  run::CudaOptions options{.tuning = run::Tuning::Measure};
  options.tune_options.progress = progress.callback();
  return make_path(job, target, options);
}

// `unfused`: null if there is none.
Result<Timing> time_paths(const Job& job, const Path& fused, const Path* unfused) {
  const Progress progress("timing");
  std::vector instances = {fused.instance};
  if (unfused != nullptr) instances.push_back(unfused->instance);
  ATTACCA_TRY(auto seconds, run::time_instances(fused.plan(), job.inputs, instances, kRounds));
  for (std::vector<double>& each : seconds)
    for (double& value : each) value *= 1e3;
  seconds.resize(2);
  return summarize(seconds[0], seconds[1]);
}

}  // namespace

Result<int> run_on_cuda(const RunArgs& args, const Job& job, run::Target target) {
  ATTACCA_TRY(const Path fused, make_fused(job, args, target));
  const run::CudaOptions other{.tuning = run::Tuning::Unfused};
  target.batch_invariant = false;  // the other path is the usual one
  const auto unfused = make_path(job, target, other);
  ATTACCA_TRY(const auto outputs, fused.compiled.run(job.inputs));
  if (!args.output.empty())
    ATTACCA_TRY_VOID(write_outputs(output_names(job.graph), outputs, args.output));
  RunReport report{args, job, fused.compiled.prepared, target.device->info().name, "unfused"};
  report.decisions = fused.instance->decisions();
  if (!unfused) report.no_other = unfused.error().what;
  ATTACCA_TRY(report.timing, time_paths(job, fused, unfused ? &*unfused : nullptr));
  ATTACCA_TRY_VOID(add_profile(report, [&] {
    return run::time_regions(fused.plan(), job.inputs, *fused.instance, kRounds);
  }));
  if (args.check) {
    target.fuse = false;
    ATTACCA_TRY(const Path op_by_op, make_path(job, target, other));
    ATTACCA_TRY(const auto reference, op_by_op.compiled.run(job.inputs));
    ATTACCA_TRY(report.checks, check_outputs(job, target.mode, outputs, reference));
  }
  return print(report);
}

}  // namespace attacca::cli
