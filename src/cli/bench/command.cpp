#include <algorithm>

#include "fmt/format.h"

#include "cli/bench/problem.hpp"
#include "cli/commands.hpp"
#include "cli/explain/decisions.hpp"
#include "support/text/json.hpp"
#include "tune/tuner.hpp"
#include "tune/worker.hpp"

namespace attacca::cli {
namespace {

struct Bench {
  tune::Tuned tuned;
  double bare_seconds = 0;  // the vendor library's product without an epilogue
  double operations = 0;
};

Result<Bench> measure(const BenchGemmArgs& args) {
  ATTACCA_TRY(const problem::ProblemText problem, bench_problem(args));
  ATTACCA_TRY(const int gpu, bench_gpu(args));
  ATTACCA_TRY(const auto toolbox, launch::Toolbox::open(gpu));
  tune::TuneOptions options;
  options.most_templates = args.all ? 1000 : options.most_templates;
  if (args.finalists >= 0) options.finalists = args.finalists;
  options.seconds_limit = args.limit;
  Bench bench;
  ATTACCA_TRY(bench.tuned, tune::tune(toolbox, problem, options));
  // A gate's two products as one product with the columns of both.
  const int products = args.b == "nk" || args.b == "kn" ? 1 : 2;
  BenchGemmArgs bare = args;
  bare.epilogue = "acc";
  bare.output.clear();
  bare.n *= products;
  if (products == 2) bare.b = "nk";
  ATTACCA_TRY(const problem::ProblemText product, bench_problem(bare));
  ATTACCA_TRY(bench.bare_seconds, tune::time_unfused(toolbox, product, options));
  bench.operations = 2.0 * double(args.m) * double(bare.n) * double(args.k);
  return bench;
}

double teraflops(const Bench& bench, double seconds) {
  return bench.operations / seconds * 1e-12;
}

void print_text(const Bench& bench, const BenchGemmArgs& args) {
  fmt::print("{} x {} x {} {}, D = {}\n", args.m, args.n, args.k, args.dtype, args.epilogue);
  fmt::print("{:>10} {:>9} {:>7}  candidate\n", "us", "TFLOP/s", "of bare");
  const auto row = [&](double seconds, const std::string& name) {
    fmt::print("{:10.2f} {:9.1f} {:7.3f}  {}\n", seconds * 1e6, teraflops(bench, seconds),
               seconds / bench.bare_seconds, name);
  };
  row(bench.bare_seconds, "cuBLASLt, the product alone");
  bool final = true;
  for (const tune::Trial& trial : bench.tuned.trials) {
    if (final && !trial.final) fmt::print("in earlier rounds only:\n");
    final = trial.final;
    if (trial.seconds)
      row(*trial.seconds, to_string(trial.candidate));
    else
      fmt::print("{:>10} {:>9} {:>7}  {}: {}\n", "-", "-", "-", to_string(trial.candidate),
                 trial.failure);
  }
  for (const launch::Exclusion& each : bench.tuned.excluded)
    fmt::print("{:>10} {:>9} {:>7}  {}: {}\n", "", "", "", each.kernel, each.reason);
  fmt::print("selected {}: {:.3f}x the unfused path's time\n",
             to_string(bench.tuned.choice.candidate),
             bench.tuned.choice.unfused_seconds > 0
                 ? bench.tuned.choice.seconds / bench.tuned.choice.unfused_seconds
                 : 1.0);
}

json::Value to_json(const Bench& bench, const BenchGemmArgs& args) {
  return json::Value::object()
      .set("m", args.m)
      .set("n", args.n)
      .set("k", args.k)
      .set("dtype", args.dtype)
      .set("epilogue", args.epilogue)
      .set("bare_us", bench.bare_seconds * 1e6)
      .set("unfused_us", bench.tuned.choice.unfused_seconds * 1e6)
      .set("selected", to_string(bench.tuned.choice.candidate))
      .set("selected_us", bench.tuned.choice.seconds * 1e6)
      .set("candidates", trials_json(bench.tuned.trials))
      .set("excluded", run::exclusions_json(bench.tuned.excluded));
}

Result<int> try_bench(const BenchGemmArgs& args) {
  ATTACCA_TRY(const Bench bench, measure(args));
  if (args.json)
    print_json(to_json(bench, args), args.lines ? -1 : 2);
  else
    print_text(bench, args);
  return kOk;
}

}  // namespace

int bench_gemm(const BenchGemmArgs& args) {
  return exit_code(try_bench(args));
}

int tune_worker() {
  return tune::serve_timings();
}

}  // namespace attacca::cli
