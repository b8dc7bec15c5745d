#include "support/progress.hpp"

#include <algorithm>
#include <chrono>
#include <system_error>
#include <unistd.h>

#include "fmt/format.h"

#include "support/text/standard_error.hpp"

namespace attacca {

Progress::Progress(std::string label) : label_(std::move(label)) {
  const bool terminal = isatty(STDERR_FILENO) != 0;
  try {
    thread_ = std::thread([this, terminal] { terminal ? show_on_terminal() : print_lines(); });
  } catch (
      const std::system_error&) {  // no thread can be started: the work continues without output
  }
}

Progress::~Progress() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    done_ = true;
  }
  done_changed_.notify_all();
  thread_.join();
}

void Progress::show_on_terminal() {
  using std::chrono::seconds;
  std::unique_lock lock(mutex_);
  int elapsed = 2;
  if (done_changed_.wait_for(lock, seconds(elapsed), [this] { return done_; })) return;
  do {
    print_to_stderr(fmt::format("\r{} ... {} s", label_, elapsed++));
  } while (!done_changed_.wait_for(lock, seconds(1), [this] { return done_; }));
  print_to_stderr("\r\033[K");
}

void Progress::print_lines() {
  using std::chrono::seconds;
  std::unique_lock lock(mutex_);
  for (int elapsed = 30;
       !done_changed_.wait_for(lock, seconds(elapsed == 30 ? 30 : 60), [this] { return done_; });
       elapsed += 60) {
    print_to_stderr(fmt::format("{} ... {} s\n", label_, elapsed));
  }
}

ProgressBar::ProgressBar() : terminal_(isatty(STDERR_FILENO) != 0) {}

ProgressBar::~ProgressBar() {
  if (!terminal_) return;
  print_to_stderr("\r\033[K");
}

void ProgressBar::show(double done, const std::string& label) const {
  if (!terminal_) return;
  constexpr size_t kWidth = 20;
  done = std::clamp(done, 0.0, 1.0);
  const auto filled = static_cast<size_t>(done * kWidth);
  print_to_stderr(fmt::format("\r\033[K[{}{}] {:3.0f} % {}", std::string(filled, '#'),
                              std::string(kWidth - filled, '-'), done * 100, label));
}

}  // namespace attacca
