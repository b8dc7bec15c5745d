// google-benchmark over every case and contender. cpu_table makes the published table.
#include <thread>

#include "benchmark/benchmark.h"
#include "contenders.hpp"

int main(int argc, char** argv) {
  using namespace attacca::bench;
  benchmark::Initialize(&argc, argv);
  const int threads = static_cast<int>(std::thread::hardware_concurrency());
  constexpr const char* kNames[] = {"fused", "op_by_op", "post_ops"};
  for (const Case& c : all_cases())
    for (int which = 0; which < 3; ++which)
      benchmark::RegisterBenchmark((name(c) + " " + kNames[which]).c_str(),
                                   [c, which, threads](benchmark::State& state) {
                                     const auto all = contenders(c, threads);
                                     for (auto _ : state) all[which].run();
                                     state.counters["flops"] = benchmark::Counter(
                                         2.0 * c.shape.m * c.shape.n * c.shape.k,
                                         benchmark::Counter::kIsIterationInvariantRate);
                                   })
          ->UseRealTime()
          ->Unit(benchmark::kMillisecond);
  benchmark::RunSpecifiedBenchmarks();
}
