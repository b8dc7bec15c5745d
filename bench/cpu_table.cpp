// Times the three contenders of every case in interleaved rounds and writes the table of
// docs/benchmarks/cpu.md. Machines share their cores: only ratios within a round count, and their
// median is what the table says.
//
// usage: cpu_table [FILE [ROUNDS [FILTER]]]
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <thread>

#include "fmt/os.h"

#include "contenders.hpp"
#include "run/machine.hpp"

namespace attacca::bench {
namespace {

// The pause lets the OpenMP threads of oneDNN's turn go to sleep: they spin on for a while, on the
// cores of whoever comes next.
double seconds(const std::function<void()>& run) {
  std::this_thread::sleep_for(std::chrono::milliseconds(8));
  const auto begin = std::chrono::steady_clock::now();
  run();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

struct Row {
  std::string name;
  double milliseconds[3];
  double over_op_by_op, over_post_ops;  // their time over the fused time
  std::string implementation;
};

Row measure(const Case& c, int threads, int rounds) {
  const std::vector<Contender> all = contenders(c, threads);
  std::vector<double> times[3], ratios[2];
  for (int round = 0; round < rounds; ++round) {
    double now[3];
    for (int i = 0; i < 3; ++i) {
      const int which = (i + round) % 3;  // nobody always runs after the same one
      now[which] = seconds(all[which].run);
    }
    for (int i = 0; i < 3; ++i) times[i].push_back(now[i] * 1e3);
    for (int i = 0; i < 2; ++i) ratios[i].push_back(now[i + 1] / now[0]);
  }
  return {name(c),
          {median(times[0]), median(times[1]), median(times[2])},
          median(ratios[0]),
          median(ratios[1]),
          all[2].implementation};
}

constexpr const char* kHeader = R"(# Fused against unfused on the CPU

`make bench-cpu` writes this file. Times in ms; each ratio is the median over {} interleaved rounds of
the other's time over the fused time, so above 1.00 the fused plan wins. "op by op" runs the same
kernels with every intermediate through memory; "post-ops" is oneDNN's own fusion, its
implementation named last.

{}, {} threads, {}; {}.

| case | fused | op by op | post-ops | op by op / fused | post-ops / fused | oneDNN's |
|---|---:|---:|---:|---:|---:|---|
)";

}  // namespace
}  // namespace attacca::bench

int main(int argc, char** argv) {
  using namespace attacca::bench;
  const std::string path = argc > 1 ? argv[1] : "docs/benchmarks/cpu.md";
  const int rounds = argc > 2 ? std::atoi(argv[2]) : 41;
  const std::string filter = argc > 3 ? argv[3] : "";
  const auto machine = attacca::run::describe_machine();
  const int threads = static_cast<int>(std::thread::hardware_concurrency());
  auto file = fmt::output_file(path);
  file.print(fmt::runtime(kHeader), rounds, machine.cpu_model, threads, machine.simd,
             fmt::join(machine.libraries, ", "));
  for (const Case& c : all_cases()) {
    if (name(c).find(filter) == std::string::npos) continue;
    const Row row = measure(c, threads, rounds);
    const std::string line =
        fmt::format("| {} | {:.2f} | {:.2f} | {:.2f} | {:.2f} | {:.2f} | {} |\n", row.name,
                    row.milliseconds[0], row.milliseconds[1], row.milliseconds[2],
                    row.over_op_by_op, row.over_post_ops, row.implementation);
    fmt::print("{}", line);
    std::fflush(stdout);
    file.print("{}", line);
  }
}
