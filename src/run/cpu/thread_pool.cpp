#include "run/cpu/thread_pool.hpp"

#include <algorithm>
#include <dlfcn.h>
#include <exception>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>

#include "support/files/process_gate.hpp"

namespace attacca::run {
namespace {

// oneDNN is built with OpenMP, which would start threads of its own inside each of ours. The number
// of threads is set for each thread. The runtime is found by name because only oneDNN links it.
class SerialOpenMp {
 public:
  SerialOpenMp() {
    if (set_) before_ = get_(), set_(1);
  }
  ~SerialOpenMp() {
    if (set_) set_(before_);
  }
  SerialOpenMp(const SerialOpenMp&) = delete;
  SerialOpenMp& operator=(const SerialOpenMp&) = delete;

 private:
  using Get = int (*)();
  using Set = void (*)(int);
  static inline const Get get_ = reinterpret_cast<Get>(dlsym(RTLD_DEFAULT, "omp_get_max_threads"));
  static inline const Set set_ =
      get_ ? reinterpret_cast<Set>(dlsym(RTLD_DEFAULT, "omp_set_num_threads")) : nullptr;
  int before_ = 1;
};

void relax() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#endif
}

// How long a worker looks for the next job, and a caller for the end of its job, before it sleeps:
// regions follow each other closely, and the tasks of one are alike.
constexpr int kSpins = 4000;

// Moves a worker off a processor: where others load the machine, it would wait there until the
// caller's own work is done.
void move_off(int processor, std::thread& worker) {
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0 || CPU_COUNT(&allowed) < 2) return;
  CPU_CLR(static_cast<size_t>(processor), &allowed);
  pthread_setaffinity_np(worker.native_handle(), sizeof(allowed), &allowed);
}

template <class F>
void spin_while(F waiting) {
  for (int spin = 0; spin < kSpins && waiting(); ++spin) relax();
}

}  // namespace

struct ThreadPool::Job {
  const std::function<void(int64_t)>& task;
  const int64_t count;
  int helpers_wanted;            // guarded by the pool's mutex
  std::atomic<int> helpers = 0;  // written under the mutex
  std::atomic<int64_t> next = 0;
  std::condition_variable done = {};
  std::mutex error_mutex = {};
  std::exception_ptr error = {};

  void work() {
    try {
      for (int64_t i = next++; i < count; i = next++) task(i);
    } catch (...) {
      next = count;
      const std::lock_guard lock(error_mutex);
      if (!error) error = std::current_exception();
    }
  }
};

ThreadPool& ThreadPool::shared() {
  const ForkHold hold;
  static std::atomic<ThreadPool*> pool = new ThreadPool(nullptr);
  // The child lacks the workers of this pool, and one of them may have held its mutex.
  [[maybe_unused]] static const int registered =
      pthread_atfork(nullptr, nullptr, [] { pool = new ThreadPool(pool); });
  return *pool;
}

void ThreadPool::grow(int workers) {
  if (static_cast<int>(workers_.size()) >= workers) return;
  // Held while stacks are allocated, so that they leave addresses for libraries, which crash
  // without.
  constexpr size_t kRoom = size_t{1} << 30;
  void* const room =
      mmap(nullptr, kRoom, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (room == MAP_FAILED) return;
  try {
    while (static_cast<int>(workers_.size()) < workers) {
      workers_.reserve(workers_.size() + 1);
      auto made = std::make_unique<Worker>();
      made->thread = std::thread([this, self = made.get()] { work(*self); });
      workers_.push_back(std::move(made));
    }
  } catch (const std::exception&) {  // no more threads: fewer do as well, and the caller is one
  }
  munmap(room, kRoom);
}

ThreadPool::Job* ThreadPool::take_job() {
  if (jobs_.empty()) return nullptr;
  Job* job = jobs_.front();
  ++job->helpers;
  if (--job->helpers_wanted == 0) {
    jobs_.pop_front();
    --queued_;
  }
  return job;
}

void ThreadPool::place_workers(int count) {
  const int here = sched_getcpu();
  if (here < 0 || here >= CPU_SETSIZE) return;
  for (int i = 0; i < std::min(count, static_cast<int>(workers_.size())); ++i) {
    Worker& worker = *workers_[i];
    if (worker.processor.load(std::memory_order_relaxed) != here) continue;
    move_off(here, worker.thread);
    worker.processor.store(-1, std::memory_order_relaxed);
  }
}

void ThreadPool::work(Worker& self) {
  std::unique_lock lock(mutex_);  // grow() holds it, and memory back, until all have started
  const SerialOpenMp serial;
  for (;;) {
    Job* job = take_job();
    if (!job) {
      self.processor.store(sched_getcpu(), std::memory_order_relaxed);
      lock.unlock();
      spin_while([this] { return queued_.load(std::memory_order_relaxed) == 0; });
      lock.lock();
      if (jobs_.empty()) wake_.wait(lock);
      continue;
    }
    lock.unlock();
    {
      const SharedHold hold;
      job->work();
    }
    lock.lock();
    if (--job->helpers == 0) job->done.notify_all();
  }
}

void ThreadPool::run(int threads, int64_t count, const std::function<void(int64_t)>& task) {
  const LibraryHold hold;
  const SerialOpenMp serial;
  const int helpers = static_cast<int>(std::min<int64_t>(threads, count)) - 1;
  Job job{.task = task, .count = count, .helpers_wanted = helpers};
  if (helpers > 0) {
    const std::lock_guard lock(mutex_);
    grow(helpers);
    place_workers(helpers);
    jobs_.push_back(&job);
    ++queued_;
  }
  if (helpers > 0) wake_.notify_all();
  job.work();
  if (helpers > 0) {
    std::unique_lock lock(mutex_);
    if (const auto mine = std::find(jobs_.begin(), jobs_.end(), &job); mine != jobs_.end()) {
      jobs_.erase(mine);
      --queued_;
    }
    lock.unlock();
    spin_while([&job] { return job.helpers.load(std::memory_order_relaxed) != 0; });
    lock.lock();
    job.done.wait(lock, [&] { return job.helpers == 0; });
  }
  if (job.error) std::rethrow_exception(job.error);
}

int thread_count(int wanted) {
  return wanted > 0 ? wanted : std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

}  // namespace attacca::run
