// The report of a run on any device, as text and as JSON.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cli/commands.hpp"
#include "cli/job.hpp"
#include "cli/run/profile.hpp"
#include "run/check/compare.hpp"
#include "run/cuda/decision.hpp"
#include "run/shared/target.hpp"

namespace attacca::cli {

struct Timing {
  double fused_ms = 0, other_ms = 0;
  double speedup = 0;  // median of the paired ratios
};
// The times of rounds in which both took turns; `other_ms` may be empty.
Timing summarize(const std::vector<double>& fused_ms, const std::vector<double>& other_ms);

struct OutputCheck {
  std::string name;
  run::Difference fused, unfused;
  run::Verdict verdict;  // of the fused result
  int64_t size = 0;
  std::string first;  // what is wrong at the first element outside the bound; empty: nothing
};
// Compares with the job's graph in f64 and the bound that its roundings give.
Result<std::vector<OutputCheck>> check_outputs(const Job& job, ir::Mode mode,
                                               const std::vector<ir::Tensor>& fused,
                                               const std::vector<ir::Tensor>& unfused);

struct RunReport {
  const RunArgs& args;
  const Job& job;
  const run::Prepared& prepared;
  std::string device;         // "cpu", "NVIDIA H200"
  std::string other;          // what the fused time is compared with: "op by op"
  std::string no_other = {};  // why there is nothing to compare with
  Timing timing = {};
  std::vector<OutputCheck> checks = {};
  std::vector<run::Decision> decisions = {};  // of a device with a choice of kernels
  std::optional<Profile> profile = {};        // where --profile asks for it
};
// Fills in the profile and writes the trace, as the arguments ask for them. `time`: the regions of
// one run or more, round by round.
Status add_profile(RunReport& report,
                   const std::function<Result<std::vector<std::vector<run::RegionTime>>>()>& time);
// Prints to standard output, in the form that the arguments select. Returns the exit code.
int print(const RunReport& report);

}  // namespace attacca::cli
