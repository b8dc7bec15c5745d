#include "fmt/format.h"

#include "cli/commands.hpp"
#include "cli/explain/decisions.hpp"
#include "cli/job.hpp"
#include "cli/target.hpp"
#include "cli/tune_progress.hpp"
#include "run/pipeline.hpp"
#include "tune/rounds.hpp"
#include "tune/timer.hpp"

namespace attacca::cli {
namespace {

struct Row {
  ir::SymbolValues symbols;
  run::Decision decision;
};

tune::TuneOptions options_of(const TuneArgs& args) {
  tune::TuneOptions options;
  if (args.budget > 0) options.most_templates = args.budget;
  if (args.all) options.most_templates = 1000000;
  options.seconds_limit = args.limit;
  options.filter = {args.allow, args.deny};
  return options;
}

size_t count_products(const fuse::Partition& partition) {
  size_t count = 0;
  for (const fuse::Region& region : partition.regions)
    count += region.kernel || (region.kind != fuse::RegionKind::Single && !region.gemms.empty());
  return count;
}

struct TunedPlan {
  // Compiled as by `attacca run`, so that the measured regions are those that run.
  run::Compiled compiled;
  std::vector<Row> rows;

  const fuse::Partition& partition() const { return *compiled.prepared.partition; }
};

run::Tuning tuning_of(const TuneArgs& args) {
  if (args.budget == 0) return run::Tuning::Model;
  return args.missing ? run::Tuning::Measure : run::Tuning::Always;
}

Result<TunedPlan> measure(const TuneArgs& args, const Job& job, const run::Target& target) {
  ATTACCA_TRY(const auto sizes, sizes_of(job, args.dims));
  TuneProgress progress;
  run::CudaOptions options{.tuning = tuning_of(args), .tune_options = options_of(args)};
  options.tune_options.progress = progress.callback();
  ATTACCA_TRY(run::Compiled compiled,
              run::compile(job.graph, target, {.cuda = std::move(options)}));
  TunedPlan tuned{std::move(compiled), {}};
  progress.expect(std::max<size_t>(1, sizes.size() * count_products(tuned.partition())));
  for (const ir::SymbolValues& symbols : sizes) {
    progress.name(sizes_text(symbols));
    ATTACCA_TRY(const auto instance, tuned.compiled.cuda().instance(symbols));
    for (const run::Decision& decision : instance->decisions())
      if (decision.seconds > 0 || decision.expected_seconds > 0)
        tuned.rows.push_back({symbols, decision});
  }
  return tuned;
}

double ratio(const run::Decision& decision) {
  return decision.seconds > 0 ? decision.unfused_seconds / decision.seconds : 0;
}

// A time or ratio as text; 0 means that there is none.
std::string cell(double value, const char* unit = "") {
  return value > 0 ? fmt::format("{:.2f}{}", value, unit) : "-";
}

// By how much the next fastest takes longer: "+1.3%"; negative where both tie and the winner is the
// first in the order of ties.
std::string lead_of(const run::Decision& decision) {
  const tune::Trial* next = tune::next_fastest(decision.trials, decision.candidate);
  return next == nullptr ? "-"
                         : fmt::format("{:+.1f}%", (*next->seconds / decision.seconds - 1) * 100);
}

std::string time_of(const run::Decision& decision) {
  if (decision.expected_seconds > 0) return fmt::format("~{:.2f}", decision.expected_seconds * 1e6);
  return cell(decision.seconds * 1e6);
}

std::string unfused_time_of(const run::Decision& decision) {
  if (decision.expected_unfused_seconds > 0)
    return fmt::format("~{:.2f}", decision.expected_unfused_seconds * 1e6);
  return cell(decision.unfused_seconds * 1e6);
}

void print_details(const run::Decision& decision) {
  for (const tune::Trial& trial : decision.trials)
    fmt::print("    {:>10}  {}{}\n", cell(trial.seconds.value_or(0) * 1e6),
               to_string(trial.candidate),
               trial.failure.empty() ? "" : fmt::format(": {}", trial.failure));
  for (const launch::Exclusion& each : decision.excluded)
    fmt::print("    {:>10}  {}: {}\n", "", each.kernel, each.reason);
}

void print_text(const TunedPlan& tuned, const TuneArgs& args) {
  size_t width = 4;
  for (const Row& row : tuned.rows) width = std::max(width, sizes_text(row.symbols).size());
  fmt::print("region  {:<{}}  {:>10}  {:>10}  {:>6}  {:>6}  winner\n", "size", width, "us",
             "unfused us", "ratio", "lead");
  for (const Row& row : tuned.rows) {
    const run::Decision& each = row.decision;
    fmt::print("{:6}  {:<{}}  {:>10}  {:>10}  {:>6}  {:>6}  {}\n",
               run::region_number(each, tuned.partition()), sizes_text(row.symbols), width,
               time_of(each), unfused_time_of(each), cell(ratio(each), "x"), lead_of(each),
               to_string(each.candidate));
    if (each.joint)
      fmt::print("        {} regions in one launch: {:.2f} us, apart {:.2f} us, {}\n",
                 each.joint->regions, each.joint->seconds * 1e6, each.joint->apart_seconds * 1e6,
                 to_string(each.joint->candidate));
    if (!each.not_stored.empty()) fmt::print("        not stored: {}\n", each.not_stored);
    if (args.list) print_details(each);
  }
}

json::Value to_json(const TunedPlan& tuned, const TuneArgs& args) {
  json::Value rows = json::Value::array();
  for (const Row& row : tuned.rows) {
    const run::Decision& each = row.decision;
    json::Value entry = json::Value::object();
    entry.set("region", run::region_number(each, tuned.partition()));
    entry.set("dims", dims_json(row.symbols));
    entry.set("winner", to_string(each.candidate));
    if (each.joint)
      entry.set("together", each.joint->regions)
          .set("together_winner", to_string(each.joint->candidate))
          .set("together_us", each.joint->seconds * 1e6)
          .set("apart_us", each.joint->apart_seconds * 1e6);
    if (each.expected_seconds > 0) {
      entry.set("expected_us", each.expected_seconds * 1e6);
      entry.set("expected_unfused_us", each.expected_unfused_seconds * 1e6);
    } else {
      entry.set("us", each.seconds * 1e6).set("unfused_us", each.unfused_seconds * 1e6);
      entry.set("ratio", ratio(each));
      if (const auto* next = tune::next_fastest(each.trials, each.candidate))
        entry.set("next", to_string(next->candidate)).set("next_us", *next->seconds * 1e6);
    }
    if (!each.not_stored.empty()) entry.set("not_stored", each.not_stored);
    entry.set("candidates", trials_json(each.trials));
    entry.set("excluded", run::exclusions_json(each.excluded));
    rows.push(std::move(entry));
  }
  return json::Value::object()
      .set("file", args.file)
      .set("device", tuned.compiled.prepared.target.device->info().name)
      .set("mode", args.mode)
      .set("batch_invariant", args.batch_invariant)
      .set("tuned", std::move(rows));
}

Result<int> try_tune(const TuneArgs& args) {
  ATTACCA_TRY(const Job job, load_job(args.file, args.dims));
  ATTACCA_TRY(run::Target target, target_of(args.device, args.mode));
  target.batch_invariant = args.batch_invariant;
  if (!target.device)
    return fail("there is nothing to tune on the CPU", "--device", "use --device cuda");
  const tune::KeepWorkers keep;
  ATTACCA_TRY(const TunedPlan tuned, measure(args, job, target));
  if (args.json)
    print_json(to_json(tuned, args));
  else
    print_text(tuned, args);
  return kOk;
}

}  // namespace

int tune(const TuneArgs& args) {
  return exit_code(try_tune(args));
}

}  // namespace attacca::cli
