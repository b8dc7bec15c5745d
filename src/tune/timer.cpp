#include "tune/timer.hpp"

#include <algorithm>
#include <mutex>

#include "fmt/format.h"

#include "support/environment.hpp"
#include "support/immortal.hpp"
#include "support/text/json.hpp"

namespace attacca::tune {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

milliseconds milliseconds_of(double seconds) {
  constexpr double kYear = 365.0 * 24 * 3600;  // longer times overflow the clock
  return milliseconds(static_cast<int64_t>(std::min(seconds, kYear) * 1000));
}

bool is_answered(const Trial& trial) {
  return trial.seconds.has_value() || !trial.failure.empty();
}

void fail_unanswered(const std::vector<size_t>& open, std::vector<Trial>& trials,
                     const std::string& why) {
  for (const size_t i : open)
    if (!is_answered(trials[i])) trials[i].failure = why;
}

// Records a line of the worker.
void note(const json::Value& line, const std::vector<size_t>& open, std::vector<Trial>& trials,
          std::optional<size_t>& current) {
  const auto index = [&](const char* key) -> std::optional<size_t> {
    const json::Value* found = line.find(key);
    if (found == nullptr || !found->is<int64_t>()) return std::nullopt;
    const auto at = static_cast<size_t>(found->as<int64_t>());
    return at < open.size() ? std::optional(open[at]) : std::nullopt;
  };
  if (line.find("begin") != nullptr) current = index("begin");
  const auto trial = index("candidate");
  if (!trial) return;
  if (const json::Value* seconds = line.find("seconds"); seconds != nullptr && seconds->is_number())
    trials[*trial].seconds = seconds->number();
  if (const json::Value* failed = line.find("failed");
      failed != nullptr && failed->is<std::string>())
    trials[*trial].failure = failed->as<std::string>();
}

// Workers that no Timer uses.
class IdleWorkers {
 public:
  void keep() {
    const std::scoped_lock lock(mutex_);
    ++keepers_;
  }

  void release() {
    std::vector<std::unique_ptr<Worker>> ended;  // outside the lock
    const std::scoped_lock lock(mutex_);
    if (keepers_ > 0 && --keepers_ == 0) ended.swap(idle_);
  }

  bool are_kept() {
    const std::scoped_lock lock(mutex_);
    return keepers_ > 0;
  }

  void put(std::unique_ptr<Worker> worker) {
    const std::scoped_lock lock(mutex_);
    worker->kept = true;
    if (keepers_ > 0) idle_.push_back(std::move(worker));
  }

  // One that this thread started; null if there is none for the purpose.
  std::unique_ptr<Worker> take(const std::string& purpose) {
    const std::scoped_lock lock(mutex_);
    const auto found = std::find_if(idle_.begin(), idle_.end(), [&](const auto& worker) {
      return worker->purpose == purpose && worker->thread == std::this_thread::get_id();
    });
    if (found == idle_.end()) return nullptr;
    std::unique_ptr<Worker> taken = std::move(*found);
    idle_.erase(found);
    return taken;
  }

 private:
  std::mutex mutex_;
  int keepers_ = 0;
  std::vector<std::unique_ptr<Worker>> idle_;
};

IdleWorkers& idle_workers() {
  return *immortal([] { return std::make_unique<IdleWorkers>(); });
}

// What a worker's libraries read beside the variables of the table.
constexpr const char* kOtherVariables[] = {"CUDA_DEVICE_ORDER", "LD_LIBRARY_PATH"};

// What a worker is started for. It opens the device of its first request, and reads the environment
// when it starts.
std::string purpose_of(const std::vector<std::string>& command, const TimingRequest& request) {
  std::string text =
      fmt::format("{}\n{}\n{}", fmt::join(command, "\n"), request.device, request.vendor);
  for (const EnvironmentVariable& variable : environment_variables())
    text += "\n" + environment(variable.name);
  for (const char* name : kOtherVariables) text += "\n" + environment(name);
  return text;
}

}  // namespace

void keep_workers() {
  idle_workers().keep();
}

void release_workers() {
  idle_workers().release();
}

Timer::Timer(std::vector<std::string> command, TimeLimits limits)
    : command_(std::move(command)),
      limits_(limits),
      deadline_(Clock::now() + milliseconds_of(limits.total_seconds)) {}

Timer::~Timer() {
  if (worker_) former_.push_back(std::move(worker_));
  for (std::unique_ptr<Worker>& worker : former_) idle_workers().put(std::move(worker));
}

void Timer::change_worker() {
  if (worker_ && idle_workers().are_kept()) former_.push_back(std::move(worker_));
  worker_.reset();
}

std::vector<Trial> Timer::time(const TimingRequest& request) {
  std::vector<Trial> trials;
  Open open;
  for (const launch::Candidate& candidate : request.candidates) {
    open.push_back(trials.size());
    trials.push_back({candidate, {}, {}, false});
  }
  TimingRequest part = request;
  time_open(part, std::move(open), trials);
  return trials;
}

void Timer::time_open(TimingRequest& request, Open open, std::vector<Trial>& trials) {
  while (!open.empty()) {
    request.candidates.clear();
    for (const size_t i : open) request.candidates.push_back(trials[i].candidate);
    const Outcome outcome = attempt(request, open, trials);
    if (std::holds_alternative<Served>(outcome)) return;
    worker_.reset();
    if (const auto* culprit = std::get_if<Culprit>(&outcome)) {
      fail_unanswered({culprit->trial}, trials, culprit->why);
      std::erase_if(open, [&](const size_t i) { return is_answered(trials[i]); });
      continue;
    }
    if (open.size() == 1) {
      trials[open[0]].failure = std::get<Died>(outcome).why;
      return;
    }
    const auto middle = open.begin() + static_cast<ptrdiff_t>(open.size() / 2);
    time_open(request, Open(open.begin(), middle), trials);
    open.erase(open.begin(), middle);
  }
}

Timer::Outcome Timer::attempt(const TimingRequest& request, const Open& open,
                              std::vector<Trial>& trials) {
  for (;;) {
    if (const Status found = find_worker(request); !found) {
      fail_unanswered(open, trials, found.error().what);
      return Served{};
    }
    const bool kept = worker_->kept;
    // If the worker does not take the request, reading from it tells how it ended.
    (void)worker_->child.send(write_request(request));
    Outcome outcome = listen(open, trials);
    // A kept worker may have died before the request: with a thread whose id this one has now.
    const auto* died = std::get_if<Died>(&outcome);
    if (!kept || died == nullptr || died->is_silent) return outcome;
    worker_.reset();
  }
}

Status Timer::find_worker(const TimingRequest& request) {
  if (worker_) return {};
  const std::string purpose = purpose_of(command_, request);
  worker_ = idle_workers().take(purpose);
  if (worker_) return {};
  ATTACCA_TRY(Child child, Child::start(command_));
  worker_ = std::make_unique<Worker>(Worker{purpose, std::move(child)});
  return {};
}

Timer::Outcome Timer::listen(const Open& open, std::vector<Trial>& trials) {
  std::optional<size_t> current;
  bool is_waiting = false;  // for the device
  const auto died = [&](const std::string& why, bool is_silent = false) -> Outcome {
    const bool all = std::all_of(open.begin(), open.end(),
                                 [&](const size_t i) { return is_answered(trials[i]); });
    if (all) {
      worker_.reset();
      return Served{};
    }
    if (current) return Culprit{*current, why};
    return Died{why, is_silent};
  };
  const auto served = [&](const std::string& why) -> Outcome {
    fail_unanswered(open, trials, why);
    return Served{};
  };
  for (;;) {
    const auto left = std::chrono::duration_cast<milliseconds>(deadline_ - Clock::now());
    if (left.count() <= 0) {
      worker_.reset();
      return served(is_waiting ? kDeviceWasBusy : kTimeWasOver);
    }
    const milliseconds silence = milliseconds_of(limits_.silence_seconds);
    const auto heard = worker_->child.receive(std::min(left, silence));
    if (std::holds_alternative<TimedOut>(heard)) {
      if (left <= silence) continue;
      return died(fmt::format("no sign of life for {} s", limits_.silence_seconds), true);
    }
    if (const auto* ended = std::get_if<Ended>(&heard))
      return died("the timing process " + ended->how);
    const auto line = json::parse(std::get<std::string>(heard), "timing process");
    if (!line) return died("the timing process wrote no JSON: " + line.error().what);
    if (line->find("done") != nullptr) return served("the timing process left it out");
    if (const json::Value* error = line->find("error")) {
      worker_.reset();  // its device may be lost
      return served(error->is<std::string>() ? error->as<std::string>() : "an error");
    }
    is_waiting = line->find("waiting") != nullptr;
    note(*line, open, trials, current);
  }
}

}  // namespace attacca::tune
