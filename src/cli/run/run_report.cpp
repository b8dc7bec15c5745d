#include "cli/run/run_report.hpp"

#include <algorithm>
#include <cmath>

#include "fmt/format.h"
#include "fmt/ranges.h"

#include "cli/explain/decisions.hpp"
#include "fuse/explain/explain.hpp"
#include "support/files/draft_file.hpp"
#include "support/progress.hpp"
#include "support/text/escaped.hpp"
#include "support/text/json.hpp"
#include "tune/measure.hpp"

namespace attacca::cli {
namespace {

std::string index_of(int64_t at, const std::vector<int64_t>& shape) {
  std::vector<int64_t> index(shape.size());
  for (size_t axis = shape.size(); axis-- > 0; at /= shape[axis]) index[axis] = at % shape[axis];
  return fmt::format("[{}]", fmt::join(index, ", "));
}

std::string wrong_element(const std::string& name, const ir::Tensor& fused,
                          const run::Bounded& bound, int64_t at) {
  const std::string place =
      fmt::format("{}{} is {}, f64 says {}", name, index_of(at, fused.shape()), fused.number_at(at),
                  bound.value[static_cast<size_t>(at)]);
  const double error = bound.error(at);
  return std::isfinite(error) ? fmt::format("{} +- {:.3g}", place, error) : place;
}

OutputCheck check_output(const std::string& name, const ir::Tensor& fused,
                         const ir::Tensor& unfused, const run::Bounded& bound) {
  OutputCheck check{name,
                    run::compare(fused, bound),
                    run::compare(unfused, bound),
                    run::judge(fused, bound, unfused),
                    fused.size(),
                    {}};
  if (check.verdict.first) check.first = wrong_element(name, fused, bound, *check.verdict.first);
  return check;
}

std::string check_line(const OutputCheck& check) {
  const run::Verdict& verdict = check.verdict;
  std::string line = fmt::format(
      "check {}: {}: largest error against f64: fused {:.3g}, op by op {:.3g} (largest value "
      "{:.3g}); {:.2g} of what the graph's roundings allow\n",
      escaped(check.name), verdict.passed() ? "passed" : "FAILED", check.fused.largest,
      check.unfused.largest, check.fused.scale, verdict.used);
  if (!verdict.passed())
    line += fmt::format("  {} of {} elements are outside the bound, the first: {}\n",
                        verdict.outside, check.size, check.first);
  if (verdict.unbounded > 0)
    line += fmt::format(
        "  {} of {} elements have no bound (an overflow, a pole or a branch is within reach of "
        "rounding): only NaN and infinities are checked there\n",
        verdict.unbounded, check.size);
  return line;
}

std::string time_line(const RunReport& report) {
  const Timing& timing = report.timing;
  const std::string where = fmt::format("({}, mode {}{})", report.device, report.args.mode,
                                        report.args.batch_invariant ? ", batch-invariant" : "");
  if (!report.no_other.empty())
    return fmt::format("time: fused {:.3f} ms {}; {}: {}\n", timing.fused_ms, where, report.other,
                       report.no_other);
  return fmt::format("time: fused {:.3f} ms, {} {:.3f} ms, {:.2f}x {}\n", timing.fused_ms,
                     report.other, timing.other_ms, timing.speedup, where);
}

void print_text(const RunReport& report) {
  for (const fold::Applied& applied : report.prepared.folds)
    fmt::print("folded {}: {}\n", applied.rule, applied.result);
  fmt::print("{}", fuse::explain_text(*report.prepared.partition));
  fmt::print("{}", decisions_text(report.decisions, *report.prepared.partition));
  fmt::print("{}", dims_line(report.job));
  fmt::print("{}", time_line(report));
  if (report.profile) fmt::print("{}", to_text(*report.profile));
  for (const OutputCheck& check : report.checks) fmt::print("{}", check_line(check));
}

json::Value to_json(const OutputCheck& check) {
  return json::Value::object()
      .set("output", check.name)
      .set("passed", check.verdict.passed())
      .set("fused_error", check.fused.largest)
      .set("op_by_op_error", check.unfused.largest)
      .set("largest_value", check.fused.scale)
      .set("mismatched_nan", check.fused.mismatched_nan)
      .set("bound_used", check.verdict.used)
      .set("outside_bound", check.verdict.outside)
      .set("without_bound", check.verdict.unbounded);
}

json::Value to_json(const RunReport& report) {
  json::Value root = json::Value::object();
  root.set("file", report.args.file);
  root.set("device", report.args.device);
  root.set("mode", report.args.mode);
  root.set("batch_invariant", report.args.batch_invariant);
  root.set("dims", dims_json(report.job.symbols));
  json::Value folds = json::Value::array();
  for (const fold::Applied& applied : report.prepared.folds)
    folds.push(json::Value::object().set("rule", applied.rule).set("result", applied.result));
  root.set("folds", std::move(folds));
  root.set("partition", fuse::explain_json(*report.prepared.partition));
  if (!report.decisions.empty())
    root.set("decisions", run::decisions_json(report.decisions, *report.prepared.partition));
  std::string other = report.other;
  std::replace(other.begin(), other.end(), ' ', '_');
  root.set("fused_ms", report.timing.fused_ms);
  if (report.no_other.empty()) {
    root.set(other + "_ms", report.timing.other_ms);
    root.set("speedup", report.timing.speedup);
  } else {
    root.set("no_" + other, report.no_other);
  }
  if (report.profile) root.set("profile", to_json(*report.profile));
  json::Value checks = json::Value::array();
  for (const OutputCheck& check : report.checks) checks.push(to_json(check));
  root.set("checks", std::move(checks));
  return root;
}

}  // namespace

Timing summarize(const std::vector<double>& fused_ms, const std::vector<double>& other_ms) {
  if (other_ms.empty()) return {tune::median(fused_ms), 0, 0};
  std::vector<double> ratios;
  for (size_t i = 0; i < fused_ms.size(); ++i)
    ratios.push_back(other_ms[i] / std::max(fused_ms[i], 1e-6));
  return {tune::median(fused_ms), tune::median(other_ms), tune::median(ratios)};
}

Result<std::vector<OutputCheck>> check_outputs(const Job& job, ir::Mode mode,
                                               const std::vector<ir::Tensor>& fused,
                                               const std::vector<ir::Tensor>& unfused) {
  const Progress progress("computing the f64 reference");
  ATTACCA_TRY(const auto bounds, run::error_bounds(job.graph, job.inputs, {.mode = mode}));
  std::vector<OutputCheck> checks;
  for (size_t i = 0; i < fused.size(); ++i)
    checks.push_back(check_output(job.graph.outputs()[i].name, fused[i], unfused[i], bounds[i]));
  return checks;
}

Status add_profile(RunReport& report,
                   const std::function<Result<std::vector<std::vector<run::RegionTime>>>()>& time) {
  const RunArgs& args = report.args;
  if (!args.profile && args.trace.empty()) return {};
  const Progress progress("timing regions");
  const fuse::Partition& partition = *report.prepared.partition;
  ATTACCA_TRY(const auto rounds, time());
  Profile profile = profile_of(rounds, partition);
  if (!args.trace.empty()) {
    const std::string process = fmt::format("{} on {}", args.file, report.device);
    ATTACCA_TRY_VOID(
        write_file(args.trace, json::dump(trace_json(profile, partition, process)) + "\n"));
  }
  if (args.profile) report.profile = std::move(profile);
  return {};
}

int print(const RunReport& report) {
  if (report.args.json)
    print_json(to_json(report));
  else
    print_text(report);
  const bool passed = std::all_of(report.checks.begin(), report.checks.end(),
                                  [](const OutputCheck& each) { return each.verdict.passed(); });
  return passed ? kOk : kCheckFailed;
}

}  // namespace attacca::cli
