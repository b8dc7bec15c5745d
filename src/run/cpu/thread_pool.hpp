// The one pool of threads that every plan runs on.
#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace attacca::run {

// The parts of `size` that `whole` is divided into.
constexpr int64_t divide_up(int64_t whole, int64_t size) {
  return (whole + size - 1) / size;
}

class ThreadPool {
 public:
  // The pool of this process: a forked child has one of its own. Never destroyed, for exit() leaves
  // other threads running.
  static ThreadPool& shared();

  // Calls task(0) ... task(count - 1), in any order, on at most `threads` threads of which the
  // caller is one; returns when all are done. The first exception a task throws is thrown again.
  // Several callers may run at once; a task must not call run itself. fork() in another thread
  // waits until it returns. Throws std::system_error at the end of the process
  // (support/files/process_gate.hpp).
  void run(int threads, int64_t count, const std::function<void(int64_t)>& task);

 private:
  struct Job;
  struct Worker {
    std::thread thread = {};
    std::atomic<int> processor = -1;  // where it last looked for a job; -1: not known
  };

  explicit ThreadPool(const ThreadPool* parents) : parents_(parents) {}
  void grow(int workers);
  // Keeps workers off the processor of the calling thread. REQUIRES: mutex_ held
  void place_workers(int count);
  void work(Worker& self);
  Job* take_job();  // REQUIRES: mutex_ held

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Job*> jobs_;
  std::atomic<int> queued_ = 0;  // jobs_.size(), readable without the lock
  std::vector<std::unique_ptr<Worker>> workers_;
  const ThreadPool* const parents_;  // of the process that forked this one: not to be touched
};

// The threads that work of this size is worth: each gets at least `least` of it.
inline int worth(int threads, int64_t work, int64_t least) {
  return static_cast<int>(std::clamp<int64_t>(work / least, 1, threads));
}

// `wanted`, or the number of the machine's cores if that is 0.
int thread_count(int wanted);

}  // namespace attacca::run
