// Times the three contenders of every case in interleaved rounds and writes docs/benchmarks/cpu.md.
// Machines share their cores, so the table has medians of ratios within a round: by wall-clock time
// on all cores, and by processor time on one core, which other work disturbs least.
//
// usage: cpu_table [FILE [ROUNDS [FILTER]]]
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <thread>
#include <time.h>

#include "fmt/chrono.h"
#include "fmt/os.h"

#include "contenders.hpp"
#include "run/cpu/machine.hpp"

namespace attacca::bench {
namespace {

double now(clockid_t clock) {
  timespec time;
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// The pause lets oneDNN's OpenMP threads go to sleep: they spin for a while after their work, on
// the cores that the next contender needs.
double seconds(const std::function<void()>& run, clockid_t clock) {
  std::this_thread::sleep_for(std::chrono::milliseconds(8));
  // The first run wakes the threads, which takes milliseconds where a virtual core was halted.
  run();
  const double begin = now(clock);
  run();
  return now(clock) - begin;
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

struct Times {
  double milliseconds[3];
  double over_op_by_op, over_post_ops;  // their time over the fused time
  std::string implementation;
};

Times measure(const Case& c, int threads, int rounds, clockid_t clock) {
  const std::vector<Contender> all = contenders(c, threads);
  std::vector<double> times[3], ratios[2];
  for (int round = 0; round < rounds; ++round) {
    double took[3];
    for (int i = 0; i < 3; ++i) {
      const int which = (i + round) % 3;  // no contender always runs after the same other one
      took[which] = seconds(all[which].run, clock);
    }
    for (int i = 0; i < 3; ++i) times[i].push_back(took[i] * 1e3);
    for (int i = 0; i < 2; ++i) ratios[i].push_back(took[i + 1] / took[0]);
  }
  return {{median(times[0]), median(times[1]), median(times[2])},
          median(ratios[0]),
          median(ratios[1]),
          all[2].implementation};
}

constexpr const char* kHeader = R"(# Fused against unfused on the CPU

`make bench-cpu` writes this file. "op by op" runs the same kernels with every intermediate through
memory; "post-ops" is oneDNN's own fusion, its implementation named last. Each ratio is the median
over {} interleaved rounds of the other's time over the fused time: above 1.00 the fused plan is
faster. Each contender is timed right after an untimed run of its own. The ratios on {} threads are
of wall-clock time, which other work on the machine disturbs (oneDNN's static schedule most); those
on one thread are of processor time.
[cpu-small-k.md](cpu-small-k.md) says what was tried where K is small.

{}, {} threads, {}; {}; {:%Y-%m-%d}.

| case | fused, ms | op by op, ms | post-ops, ms | op by op / fused | post-ops / fused )"
                                R"(| on 1 thread: op by op / fused | post-ops / fused | oneDNN's |
|---|---:|---:|---:|---:|---:|---:|---:|---|
)";

}  // namespace
}  // namespace attacca::bench

int main(int argc, char** argv) {
  using namespace attacca::bench;
  const std::string path = argc > 1 ? argv[1] : "docs/benchmarks/cpu.md";
  const int rounds = argc > 2 ? std::atoi(argv[2]) : 21;
  const std::string filter = argc > 3 ? argv[3] : "";
  const auto machine = attacca::run::describe_machine();
  const int threads = static_cast<int>(std::thread::hardware_concurrency());
  auto file = fmt::output_file(path);
  file.print(fmt::runtime(kHeader), rounds, threads, machine.cpu_model, threads, machine.simd,
             fmt::join(machine.libraries, ", "), fmt::localtime(std::time(nullptr)));
  for (const Case& c : all_cases()) {
    if (name(c).find(filter) == std::string::npos) continue;
    const Times one = measure(c, 1, rounds, CLOCK_PROCESS_CPUTIME_ID);
    const Times all = measure(c, threads, rounds, CLOCK_MONOTONIC);
    const std::string line = fmt::format(
        "| {} | {:.2f} | {:.2f} | {:.2f} | {:.2f} | {:.2f} | {:.2f} | {:.2f} | {} |\n", name(c),
        all.milliseconds[0], all.milliseconds[1], all.milliseconds[2], all.over_op_by_op,
        all.over_post_ops, one.over_op_by_op, one.over_post_ops, all.implementation);
    fmt::print("{}", line);
    std::fflush(stdout);
    file.print("{}", line);
  }
}
