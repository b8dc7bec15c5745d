#include "support/files/process_gate.hpp"

#include <atomic>
#include <cstdlib>
#include <pthread.h>
#include <system_error>

namespace attacca {
namespace {

std::atomic<int> holders = 0;  // threads
std::atomic<bool> forking = false;
std::atomic<bool> ending = false;  // exit() is about to destroy objects that oneDNN needs
thread_local int depth = 0;

void wait_for_holders() {
  for (int count = holders; count != 0; count = holders) holders.wait(count);
}

void release() {
  if (--holders == 0) holders.notify_all();
}

// A thread that forks during its own hold (a signal handler may) cannot wait for itself.
void before_fork() {
  if (depth > 0) return;
  while (forking.exchange(true)) forking.wait(true);
  wait_for_holders();
}

void after_fork() {
  if (depth > 0) return;
  forking = false;
  forking.notify_all();
}

// Runs in the child, where this thread is the only one.
void after_fork_in_child() {
  forking = false;
  holders = depth > 0 ? 1 : 0;
}

[[maybe_unused]] const int registered =
    pthread_atfork(before_fork, after_fork, after_fork_in_child);

void before_destructors() {
  ending = true;
  if (depth == 0) wait_for_holders();
}

}  // namespace

ForkHold::ForkHold() noexcept {
  if (depth++ > 0) return;
  for (;;) {
    ++holders;
    if (!forking) return;
    release();
    forking.wait(true);
  }
}

ForkHold::~ForkHold() {
  if (--depth == 0) release();
}

SharedHold::SharedHold() noexcept {
  ++depth;
}
SharedHold::~SharedHold() {
  --depth;
}

// exit() waits for this hold even within another one.
LibraryHold::LibraryHold() {
  if (ending && depth == 1)
    throw std::system_error(std::make_error_code(std::errc::operation_canceled),
                            "the process is ending");
}

void wait_at_exit() {
  std::atexit(before_destructors);
}

}  // namespace attacca
