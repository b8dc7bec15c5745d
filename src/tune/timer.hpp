// Gets times from timing processes (worker.hpp), which may crash or hang.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "tune/child.hpp"
#include "tune/choice.hpp"
#include "tune/worker.hpp"

namespace attacca::tune {

struct TimeLimits {
  double total_seconds = 60;
  // The longest time without an answer before a worker is killed. Kernels are built before the
  // first.
  double silence_seconds = 60;
};

// Sends requests to a worker. If the worker dies, starts another without the candidate at fault. If
// the worker died before it began the first candidate, halves the candidates until one is left.
class Timer {
 public:
  // `command`: the worker and its arguments. The time limit starts here and is of all requests.
  Timer(std::vector<std::string> command, TimeLimits limits);

  // One trial a candidate of the request, in its order.
  std::vector<Trial> time(const TimingRequest& request);
  // Ends the worker: the next request starts another.
  void restart() { child_.reset(); }

 private:
  // launch::Candidates of one request, by index into the trials.
  using Open = std::vector<size_t>;
  // The end of an attempt: served, or the time is over; one candidate to leave out; or a worker
  // that died for an unknown reason.
  struct Served {};
  struct Culprit {
    size_t trial;
    std::string why;
  };
  struct Died {
    std::string why;
  };
  using Outcome = std::variant<Served, Culprit, Died>;

  void time_open(TimingRequest& request, Open open, std::vector<Trial>& trials);
  Outcome attempt(const TimingRequest& request, const Open& open, std::vector<Trial>& trials);
  Outcome listen(const Open& open, std::vector<Trial>& trials);

  std::vector<std::string> command_;
  TimeLimits limits_;
  std::chrono::steady_clock::time_point deadline_;
  std::unique_ptr<Child> child_;
};

}  // namespace attacca::tune
