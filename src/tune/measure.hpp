// Timing candidates on the device, in this process: on rotating random data, as graphs of launches.
#pragma once

#include <functional>
#include <vector>

#include "launch/runnable.hpp"
#include "tune/pace.hpp"

namespace attacca::tune {

// Device memory for a problem's operands, as many sets as exceed the L2 cache (at most 8), filled
// with random numbers of every operand's dtype: floats N(0, 1), B's N(0, 1/K), integers of the full
// range, but 0 for a user's kernel.
class OperandSets {
 public:
  static Result<OperandSets> make(const std::shared_ptr<launch::Toolbox>& toolbox,
                                  const problem::Problem& problem);
  size_t size() const { return sets_.size(); }
  const problem::Addresses& operator[](size_t index) const { return sets_[index]; }

 private:
  OperandSets() = default;

  std::vector<gpu::DeviceMemory> memory_;
  std::vector<problem::Addresses> sets_;
};

// What is timed: launches that walk so many sets of operands, at least one.
struct Launches {
  std::function<Status(size_t set, void* workspace, gpu::StreamHandle stream)> launch;
  size_t sets = 1;
  size_t workspace_bytes = 0;
};
// Both are referred to while these are made to a Timed.
Launches launches_of(const launch::Runnable& runnable, const OperandSets& operands);

// Launches under the stopwatch, as a graph of them.
class Timed {
 public:
  static Result<Timed> make(const std::shared_ptr<launch::Toolbox>& toolbox,
                            const Launches& launches);
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
