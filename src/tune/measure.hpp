// Timing candidates on the device, in this process: on rotating random data, as graphs of launches.
#pragma once

#include <functional>
#include <vector>

#include "launch/runnable.hpp"
#include "tune/pace.hpp"

namespace attacca::tune {

// Device memory for a problem's operands: as many sets as exceed the L2 cache, at most 8, filled
// with random numbers. Floats are N(0, 1), those of B N(0, 1/K); integers have the full range, but
// are 0 for a user's kernel. A grouped product has at least two sets, in turn with rows that are
// drawn for all groups alike and with rows that Zipf's law divides among them.
class OperandSets {
 public:
  static Result<OperandSets> make(const std::shared_ptr<launch::Toolbox>& toolbox,
                                  const problem::Problem& problem);
  size_t size() const { return sets_.size(); }
  const problem::Addresses& operator[](size_t index) const { return sets_[index]; }
  const std::vector<problem::Addresses>& all() const { return sets_; }

 private:
  OperandSets() = default;

  std::vector<gpu::DeviceMemory> memory_;
  std::vector<problem::Addresses> sets_;
};

// What is timed: launches that use `sets` sets of operands in turn, at least one.
struct Launches {
  std::function<Status(size_t set, void* workspace, gpu::StreamHandle stream)> launch;
  size_t sets = 1;
  size_t workspace_bytes = 0;
};
// The Timed refers to both.
Launches launches_of(const launch::Runnable& runnable,
                     const std::vector<problem::Addresses>& operands);

// A CUDA graph of launches that is timed.
class Timed {
 public:
  static Result<Timed> make(const std::shared_ptr<launch::Toolbox>& toolbox,
                            const Launches& launches);
  // Launches the graph once. Returns the seconds of one launch.
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

// The seconds of each runnable in each round. They take turns, so that a drifting clock affects
// all of them alike.
Result<std::vector<std::vector<double>>> times_in_turns(std::vector<Timed>& timed, int rounds,
                                                        Pace pace);
// REQUIRES: a value.
double median(std::vector<double> values);
// What each takes, by the seconds of all in each round. They are compared within a round: each
// round's are divided by how slow that round was for most of them. For where the device's clock
// changes between a few rates, each one's own median may be of another rate.
// REQUIRES: at least one round, and the same number of each.
std::vector<double> typical_seconds(const std::vector<std::vector<double>>& rounds);
// The typical seconds of times_in_turns().
Result<std::vector<double>> time_in_turns(std::vector<Timed>& timed, int rounds, Pace pace);

}  // namespace attacca::tune
