// The one pool of threads that every plan runs on.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace attacca::run {

class ThreadPool {
 public:
  static ThreadPool& shared();
  ~ThreadPool();

  // Calls task(0) ... task(count - 1), in any order, on at most `threads` threads of which the
  // caller is one; returns when all are done. The first exception a task throws is thrown again.
  // Several callers may run at once; a task must not call run itself.
  void run(int threads, int64_t count, const std::function<void(int64_t)>& task);

 private:
  struct Job;

  ThreadPool() = default;
  void grow(int workers);
  void work();
  Job* take_job();  // REQUIRES: mutex_ held

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Job*> jobs_;
  std::atomic<int> queued_ = 0;  // jobs_.size(), readable without the lock
  std::vector<std::thread> workers_;
  bool stopping_ = false;
};

// As many as the machine has cores where `wanted` is 0.
int thread_count(int wanted);

}  // namespace attacca::run
