// Asking timing processes (worker.hpp) for times, whatever happens to them.
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
  // The longest silence of a worker that counts as work: kernels are built before the first word.
  double silence_seconds = 60;
};

// Sends requests to a worker and starts another where one died, without the candidate that it died
// of. Where that cannot be known, because it died before it began the first, the candidates are
// halved until one is alone.
class Timer {
 public:
  // `command`: the worker and its arguments. The time runs from here on, over all requests.
  Timer(std::vector<std::string> command, TimeLimits limits);

  // One trial a candidate of the request, in its order.
  std::vector<Trial> time(const TimingRequest& request);

 private:
  // launch::Candidates of one request, by index into the trials.
  using Open = std::vector<size_t>;
  // What became of an attempt: served (or the time is over), one candidate to leave out, or a
  // worker that died of it knows what.
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
