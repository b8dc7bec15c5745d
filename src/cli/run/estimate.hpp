// Estimates the time of a run, which is printed before it starts if it may be more than a minute.
#pragma once

#include <optional>
#include <string>

#include "cli/job.hpp"

namespace attacca::cli {

// Seconds on this machine; within a factor of a few.
struct Estimate {
  double inputs = 0;     // making the inputs that no file gives
  double paths = 0;      // the fused and the op-by-op path on the CPU
  double reference = 0;  // the f64 reference of --check
  double total() const { return inputs + paths + reference; }
};

struct Work {
  double multiplications = 0;  // of all matrix products
  double elements = 0;         // computed by all other ops
  double made_up = 0;          // elements of inputs that no file gives
};
// Errors: a symbol that nothing binds.
Result<Work> work_of(const Job& job);

// Times a small product in f64 to measure this machine's speed.
Estimate estimate(const Work& work, bool on_cpu, bool check);

// One line for standard error; nullopt if the run is short.
std::optional<std::string> long_run_note(const Job& job, const Estimate& estimate);

}  // namespace attacca::cli
