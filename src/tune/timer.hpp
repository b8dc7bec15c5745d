// Gets times from timing processes (worker.hpp), which may crash or hang.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <thread>
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

// After keep_workers(), workers that a Timer is done with serve later ones of the same thread, with
// which they would die: a process takes most of a second until it has a context on the GPU.
// release_workers(), called as often, ends those that are idle.
void keep_workers();
void release_workers();

class KeepWorkers {
 public:
  KeepWorkers() { keep_workers(); }
  ~KeepWorkers() { release_workers(); }
  KeepWorkers(const KeepWorkers&) = delete;
  KeepWorkers& operator=(const KeepWorkers&) = delete;
};

// A worker, and what it was started for: a command, a device, and the environment.
struct Worker {
  std::string purpose;
  Child child;
  std::thread::id thread = std::this_thread::get_id();  // that started it
  bool kept = false;                                    // it served another Timer before
};

// Sends requests to a worker. If the worker dies, starts another without the candidate at fault. If
// the worker died before it began the first candidate, halves the candidates until one is left.
class Timer {
 public:
  // `command`: the worker and its arguments. The time limit starts here and is of all requests.
  Timer(std::vector<std::string> command, TimeLimits limits);
  Timer(Timer&&) noexcept = default;
  Timer& operator=(Timer&&) = delete;
  ~Timer();

  // One trial a candidate of the request, in its order.
  std::vector<Trial> time(const TimingRequest& request);
  // The next request, and all after it, are served by another worker.
  void change_worker();

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
    bool is_silent = false;  // it was killed for its silence
  };
  using Outcome = std::variant<Served, Culprit, Died>;

  void time_open(TimingRequest& request, Open open, std::vector<Trial>& trials);
  Outcome attempt(const TimingRequest& request, const Open& open, std::vector<Trial>& trials);
  Outcome listen(const Open& open, std::vector<Trial>& trials);
  Status find_worker(const TimingRequest& request);

  std::vector<std::string> command_;
  TimeLimits limits_;
  std::chrono::steady_clock::time_point deadline_;
  std::unique_ptr<Worker> worker_;               // idle between requests
  std::vector<std::unique_ptr<Worker>> former_;  // those before it, for later Timers
};

}  // namespace attacca::tune
