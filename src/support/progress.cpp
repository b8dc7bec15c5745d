#include "support/progress.hpp"

#include <chrono>
#include <cstdio>
#include <unistd.h>

#include "fmt/core.h"

namespace attacca {

Progress::Progress(std::string label) : label_(std::move(label)) {
  if (isatty(STDERR_FILENO)) thread_ = std::thread([this] { show(); });
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

void Progress::show() {
  using std::chrono::seconds;
  std::unique_lock lock(mutex_);
  int elapsed = 2;
  if (done_changed_.wait_for(lock, seconds(elapsed), [this] { return done_; })) return;
  do {
    fmt::print(stderr, "\r{} ... {} s", label_, elapsed++);
    std::fflush(stderr);
  } while (!done_changed_.wait_for(lock, seconds(1), [this] { return done_; }));
  fmt::print(stderr, "\r\033[K");
  std::fflush(stderr);
}

}  // namespace attacca
