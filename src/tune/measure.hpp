// Timing candidates on the device, in this process: on rotating random data, as graphs of launches.
#pragma once

#include <vector>

#include "launch/runnable.hpp"
#include "tune/pace.hpp"

namespace attacca::tune {

// Device memory for a problem's operands, as many sets as exceed the L2 cache (at most 8), filled
// with random numbers of every operand's dtype: floats N(0, 1), B's N(0, 1/K), integers of the full
// range, but 0 for a user's kernel.
class Operands {
 public:
  static Result<Operands> make(const std::shared_ptr<launch::Toolbox>& toolbox,
                               const problem::Problem& problem);
  // Sets in memory that the caller keeps, at least one.
  explicit Operands(std::vector<problem::Pointers> sets) : sets_(std::move(sets)) {}
  size_t sets() const { return sets_.size(); }
  const problem::Pointers& set(size_t index) const { return sets_[index]; }

 private:
  Operands() = default;

  std::vector<gpu::DeviceMemory> memory_;
  std::vector<problem::Pointers> sets_;
};

// One runnable under the stopwatch: a graph of launches that walks the operand sets.
class Timed {
 public:
  static Result<Timed> make(const std::shared_ptr<launch::Toolbox>& toolbox,
                            const launch::Runnable& runnable, const Operands& operands);
  // Seconds a launch, once.
  Result<double> once();

 private:
  Timed() = default;

  std::shared_ptr<launch::Toolbox> toolbox_;
  gpu::DeviceMemory workspace_;
  gpu::Stream stream_;
  gpu::Event begin_, end_;
  gpu::GraphExec graph_;
  int launches_ = 1;
};

// Seconds of each runnable in each round. They take turns, so that a drifting clock meets all of
// them alike.
Result<std::vector<std::vector<double>>> times_in_turns(std::vector<Timed>& timed, int rounds,
                                                        Pace pace);
// Their medians.
Result<std::vector<double>> time_in_turns(std::vector<Timed>& timed, int rounds, Pace pace);

}  // namespace attacca::tune
