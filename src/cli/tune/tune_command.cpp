#include <sstream>

#include "fmt/format.h"

#include "cli/commands.hpp"
#include "cli/explain/decisions.hpp"
#include "cli/job.hpp"
#include "cli/run/run_cuda.hpp"
#include "cli/tune/tune_progress.hpp"
#include "run/cuda/plan.hpp"
#include "run/pipeline.hpp"

namespace attacca::cli {
namespace {

struct Row {
  ir::SymbolValues symbols;
  run::Decision decision;
};

// "M=1,16" and "K=8": the combinations ["M=1", "K=8"], ["M=16", "K=8"].
Result<std::vector<std::vector<std::string>>> combinations(const std::vector<std::string>& texts) {
  ATTACCA_TRY(const auto pairs, parse_pairs(texts, "--dim"));
  std::vector<std::vector<std::string>> all = {{}};
  for (const auto& [name, list] : pairs) {
    std::vector<std::vector<std::string>> longer;
    for (const std::vector<std::string>& each : all) {
      std::istringstream sizes(list);
      for (std::string size; std::getline(sizes, size, ',');) {
        longer.push_back(each);
        longer.back().push_back(name + "=" + size);
      }
    }
    all = std::move(longer);
  }
  return all;
}

Result<std::vector<ir::SymbolValues>> sizes_of(const Job& job,
                                               const std::vector<std::string>& texts) {
  ATTACCA_TRY(const auto all, combinations(texts));
  std::vector<ir::SymbolValues> sizes;
  for (const std::vector<std::string>& each : all) {
    Job bound{job.graph, {}, {}, {}};
    ATTACCA_TRY_VOID(bind_dims(bound, each));
    sizes.push_back(std::move(bound.symbols));
  }
  return sizes;
}

std::string text_of(const ir::SymbolValues& symbols) {
  std::vector<std::string> parts;
  for (const auto& [name, size] : symbols) parts.push_back(fmt::format("{}={}", name, size));
  return fmt::format("{}", fmt::join(parts, " "));
}

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

// Folded as `attacca run` does it, so that the measured regions are those that run.
ir::Graph folded(const Job& job, ir::Mode mode) {
  return run::prepare(job.graph, mode).folded.graph;
}

struct Tuning {
  run::CudaPlan plan;
  std::vector<Row> rows;
};

Result<Tuning> measure(const TuneArgs& args, const Job& job, int ordinal) {
  ATTACCA_TRY(const auto sizes, sizes_of(job, args.dims));
  run::CudaOptions options{.mode = *ir::parse_mode(args.mode),
                           .device = ordinal,
                           .tuning = args.budget == 0 ? run::Tuning::Model : run::Tuning::Always,
                           .tune_options = options_of(args)};
  const ir::Graph graph = folded(job, options.mode);
  TuneProgress progress(std::max<size_t>(
      1, sizes.size() * count_products(fuse::partition(
                            graph, {.reductions = fuse::Reductions::Amax, .packed = true}))));
  options.tune_options.progress = progress.callback();
  ATTACCA_TRY(run::CudaPlan plan, run::CudaPlan::compile(graph, options));
  Tuning tuning{std::move(plan), {}};
  for (const ir::SymbolValues& symbols : sizes) {
    progress.name(text_of(symbols));
    ATTACCA_TRY(const auto instance, tuning.plan.instance(symbols));
    for (const run::Decision& decision : instance->decisions())
      if (!decision.trials.empty() || decision.expected_seconds > 0)
        tuning.rows.push_back({symbols, decision});
  }
  return tuning;
}

double ratio(const run::Decision& decision) {
  return decision.seconds > 0 ? decision.unfused_seconds / decision.seconds : 0;
}

// A time or ratio as text; 0 means that there is none.
std::string cell(double value, const char* unit = "") {
  return value > 0 ? fmt::format("{:.2f}{}", value, unit) : "-";
}

std::string time_of(const run::Decision& decision) {
  if (decision.expected_seconds > 0) return fmt::format("~{:.2f}", decision.expected_seconds * 1e6);
  return cell(decision.seconds * 1e6);
}

void print_details(const run::Decision& decision) {
  for (const tune::Trial& trial : decision.trials)
    fmt::print("    {:>10}  {}{}\n", cell(trial.seconds.value_or(0) * 1e6),
               to_string(trial.candidate),
               trial.failure.empty() ? "" : fmt::format(": {}", trial.failure));
  for (const launch::Exclusion& each : decision.excluded)
    fmt::print("    {:>10}  {}: {}\n", "", each.kernel, each.reason);
}

void print_text(const Tuning& tuning, const TuneArgs& args) {
  size_t width = 4;
  for (const Row& row : tuning.rows) width = std::max(width, text_of(row.symbols).size());
  fmt::print("region  {:<{}}  {:>10}  {:>10}  {:>6}  winner\n", "size", width, "us", "unfused us",
             "ratio");
  for (const Row& row : tuning.rows) {
    const run::Decision& each = row.decision;
    fmt::print("{:6}  {:<{}}  {:>10}  {:>10}  {:>6}  {}\n",
               region_number(each, tuning.plan.partition()), text_of(row.symbols), width,
               time_of(each), cell(each.unfused_seconds * 1e6), cell(ratio(each), "x"),
               to_string(each.candidate));
    if (!each.not_stored.empty()) fmt::print("        not stored: {}\n", each.not_stored);
    if (args.list) print_details(each);
  }
}

json::Value to_json(const Tuning& tuning, const TuneArgs& args) {
  json::Value rows = json::Value::array();
  for (const Row& row : tuning.rows) {
    const run::Decision& each = row.decision;
    json::Value entry = json::Value::object();
    entry.set("region", region_number(each, tuning.plan.partition()));
    entry.set("dims", dims_json(row.symbols));
    entry.set("winner", to_string(each.candidate));
    if (each.expected_seconds > 0) {
      entry.set("expected_us", each.expected_seconds * 1e6);
    } else {
      entry.set("us", each.seconds * 1e6).set("unfused_us", each.unfused_seconds * 1e6);
      entry.set("ratio", ratio(each));
    }
    if (!each.not_stored.empty()) entry.set("not_stored", each.not_stored);
    entry.set("candidates", trials_json(each.trials));
    entry.set("excluded", exclusions_json(each.excluded));
    rows.push(std::move(entry));
  }
  return json::Value::object()
      .set("file", args.file)
      .set("device", tuning.plan.toolbox()->device().info().name)
      .set("mode", args.mode)
      .set("tuned", std::move(rows));
}

Result<int> try_tune(const TuneArgs& args) {
  ATTACCA_TRY(const DeviceChoice device, parse_device(args.device));
  if (!device.cuda)
    return fail("there is nothing to tune on the CPU", "--device", "use --device cuda");
  ATTACCA_TRY(const Job job, load_job(args.file));
  ATTACCA_TRY_VOID(check_cuda(device.ordinal));
  ATTACCA_TRY(const Tuning tuning, measure(args, job, device.ordinal));
  if (args.json)
    print_json(to_json(tuning, args));
  else
    print_text(tuning, args);
  return kOk;
}

}  // namespace

int tune(const TuneArgs& args) {
  const auto code = try_tune(args);
  return code ? *code : report(code.error());
}

}  // namespace attacca::cli
