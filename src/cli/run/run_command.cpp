#include <chrono>

#include "fmt/format.h"

#include "cli/commands.hpp"
#include "cli/job.hpp"
#include "cli/run/estimate.hpp"
#include "cli/run/run_cuda.hpp"
#include "cli/run/run_report.hpp"
#include "cli/target.hpp"
#include "run/check/random_inputs.hpp"
#include "run/pipeline.hpp"
#include "support/progress.hpp"
#include "support/text/standard_error.hpp"

namespace attacca::cli {
namespace {

// An ONNX file that the importer cannot take whole can run through ONNX Runtime.
Error with_way_out(Error error, const RunArgs& args) {
  constexpr std::string_view kWay = "run the file with ONNX Runtime";
  const bool in_model = error.where.find("node ") != std::string::npos || error.fix.ends_with(kWay);
  if (!args.file.ends_with(".onnx") || args.device != "cpu" || !in_model) return error;
  if (!error.fix.ends_with(kWay))
    error.fix += fmt::format("{}{}", error.fix.empty() ? "" : "; or ", kWay);
  error.fix += fmt::format(": attacca run {} --through onnxruntime", args.file);
  return error;
}

Result<Job> prepare_job(const RunArgs& args) {
  if (args.tune && args.device == "cpu")
    return fail("there is nothing to tune on the CPU", "--tune", "leave it out");
  auto loaded = load_job(args.file, args.dims);
  if (!loaded) return tl::make_unexpected(with_way_out(loaded.error(), args));
  Job job = *std::move(loaded);
  if (!args.output.empty()) ATTACCA_TRY_VOID(output_files(output_names(job.graph), args.output));
  ATTACCA_TRY_VOID(read_inputs(job, args.inputs));
  ATTACCA_TRY_VOID(bind_dims(job, args.dims));
  ATTACCA_TRY(const Work work, work_of(job));
  const Estimate expected = estimate(work, args.device == "cpu", args.check);
  if (const auto note = long_run_note(job, expected)) print_to_stderr(*note);
  const Progress progress("making inputs");
  ATTACCA_TRY(job.inputs,
              run::random_inputs(job.graph, job.symbols, args.seed, std::move(job.inputs)));
  return job;
}

Result<run::Compiled> compile_job(const Job& job, const RunArgs& args, const run::Target& target,
                                  std::shared_ptr<run::PackedWeights> packed) {
  const Progress progress(target.fuse ? "compiling" : "compiling the op-by-op path");
  run::CpuOptions options{.threads = args.threads, .packed = std::move(packed)};
  for (const ir::Value weight : run::weight_inputs(job.graph))
    options.weights.emplace(job.graph[weight].name, job.inputs.at(job.graph[weight].name));
  return run::compile(job.graph, target, {.cpu = std::move(options)});
}

template <class Work>
Result<double> time_ms(const Work& work) {
  const auto begin = std::chrono::steady_clock::now();
  ATTACCA_TRY_VOID(work());
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin)
      .count();
}

// The two paths in turn, after a warm-up of each, for at most two seconds or fifty rounds.
Result<Timing> time_paths(const run::Compiled& fused, const run::Compiled& unfused,
                          const ir::Bindings& inputs) {
  const Progress progress("timing");
  std::vector<double> fused_ms, unfused_ms;
  double spent = 0;
  for (int round = 0; round < 51 && (round < 2 || spent < 2000); ++round) {
    ATTACCA_TRY(const double f, time_ms([&] { return fused.run(inputs); }));
    ATTACCA_TRY(const double u, time_ms([&] { return unfused.run(inputs); }));
    if (round == 0) continue;
    spent += f + u;
    fused_ms.push_back(f);
    unfused_ms.push_back(u);
  }
  return summarize(fused_ms, unfused_ms);
}

// For at most a second or fifty rounds, after a warm-up by time_paths().
Result<std::vector<std::vector<run::RegionTime>>> time_regions(const run::CpuPlan& plan,
                                                               const ir::Bindings& inputs) {
  std::vector<std::vector<run::RegionTime>> rounds;
  for (double spent = 0; rounds.empty() || (rounds.size() < 50 && spent < 1000);) {
    ATTACCA_TRY(const double ms, time_ms([&]() -> Status {
                  ATTACCA_TRY(rounds.emplace_back(), plan.time_regions(inputs));
                  return {};
                }));
    spent += ms;
  }
  return rounds;
}

Result<std::vector<ir::Tensor>> run_once(const run::Compiled& plan, const Job& job) {
  const Progress progress("running");
  return plan.run(job.inputs);
}

Result<int> run_on_cpu(const RunArgs& args, const Job& job, run::Target target) {
  // Both paths multiply with one packed copy of the weights.
  auto packed = std::make_shared<run::PackedWeights>();
  ATTACCA_TRY(const run::Compiled fused, compile_job(job, args, target, packed));
  target.fuse = false;
  ATTACCA_TRY(const run::Compiled unfused, compile_job(job, args, target, std::move(packed)));
  ATTACCA_TRY(const auto outputs, run_once(fused, job));
  if (!args.output.empty())
    ATTACCA_TRY_VOID(write_outputs(output_names(job.graph), outputs, args.output));
  RunReport report{args, job, fused.prepared, "cpu", "op by op"};
  ATTACCA_TRY(report.timing, time_paths(fused, unfused, job.inputs));
  ATTACCA_TRY_VOID(add_profile(report, [&] { return time_regions(fused.cpu(), job.inputs); }));
  if (args.check) {
    ATTACCA_TRY(const auto reference, unfused.run(job.inputs));
    ATTACCA_TRY(report.checks, check_outputs(job, target.mode, outputs, reference));
  }
  return print(report);
}

Result<int> try_run(const RunArgs& args) {
  ATTACCA_TRY(run::Target target, target_of(args.device, args.mode));
  target.batch_invariant = args.batch_invariant;
  ATTACCA_TRY(const Job job, prepare_job(args));
  return target.device ? run_on_cuda(args, job, target) : run_on_cpu(args, job, target);
}

}  // namespace

int run(const RunArgs& args) {
  return exit_code(try_run(args));
}

}  // namespace attacca::cli
