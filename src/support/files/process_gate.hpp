// Work that fork() or exit() in another thread must not interrupt: a child process would find its
// locks held forever, and static destructors of oneDNN would free objects that it uses.
#pragma once

#include <mutex>

namespace attacca {

// While an object exists, fork() in another thread waits. Hold it for one parallel job at most, and
// never while forking or while waiting for another thread that begins a hold. Holds nest.
class ForkHold {
 public:
  ForkHold() noexcept;
  ~ForkHold();
  ForkHold(const ForkHold&) = delete;
  ForkHold& operator=(const ForkHold&) = delete;
};

// Locks a mutex that a child process may use as well: fork() in another thread waits.
class ForkSafeLock {
 public:
  explicit ForkSafeLock(std::mutex& mutex) : lock_(mutex) {}

 private:
  ForkHold hold_;
  std::lock_guard<std::mutex> lock_;
};

// For a thread that helps the holding thread: its own holds neither wait nor count.
class SharedHold {
 public:
  SharedHold() noexcept;
  ~SharedHold();
  SharedHold(const SharedHold&) = delete;
  SharedHold& operator=(const SharedHold&) = delete;
};

// Around calls of oneDNN: exit() waits too, before static destructors run.
// Throws std::system_error after exit() has begun to destroy objects.
class LibraryHold {
 public:
  LibraryHold();

 private:
  ForkHold hold_;
};

// Call it after oneDNN has made its static objects: exit() destroys later objects first.
void wait_at_exit();

}  // namespace attacca
