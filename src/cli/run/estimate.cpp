#include "cli/run/estimate.hpp"

#include <algorithm>
#include <chrono>
#include <thread>
#include <vector>

#include "fmt/format.h"

#include "ir/interpret/array.hpp"

namespace attacca::cli {
namespace {

// Seconds. The estimate is of an idle machine: half a minute may be more than a minute.
constexpr double kWorthSaying = 30;

// Seconds of one core for an element or a multiplication.
constexpr double kMadeUp = 5e-9;      // drawing a random number from a pool
constexpr double kReference = 2e-7;   // an op of the f64 reference with its bound
constexpr double kElement = 2e-9;     // an op of a compiled path
constexpr double kCompiledGain = 10;  // compiled products against the reference's
constexpr double kRuns = 6;           // two paths: the result, a warm-up and a timed round each

double size_of(const ir::Shape& shape, const ir::SymbolValues& symbols) {
  double size = 1;
  for (const ir::Dim& dim : shape)
    if (const auto extent = dim.evaluate(symbols)) size *= static_cast<double>(*extent);
  return size;
}

// Multiplications a second of one core, as the reference multiplies: the best of a few products,
// since another process may hold the core during one.
double reference_rate() {
  constexpr int64_t kRows = 32, kInner = 512, kColumns = 128;
  const ir::Array a = ir::Array::of_numbers({kRows, kInner});
  const ir::Array b = ir::Array::of_numbers({kInner, kColumns});
  double best = 1;  // seconds
  for (int i = 0; i < 5; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    static_cast<void>(ir::reference_matmul(a, b));
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - begin;
    best = std::min(best, std::max(spent.count(), 1e-6));
  }
  return static_cast<double>(kRows * kColumns * kInner) / best;
}

std::string duration(double seconds) {
  if (seconds < 90) return fmt::format("{:.0f} s", seconds);
  return seconds < 5400 ? fmt::format("{:.0f} min", seconds / 60)
                        : fmt::format("{:.1f} h", seconds / 3600);
}

// What to do about it: make the largest dimension that may be chosen smaller.
std::string advice(const Job& job) {
  const auto largest =
      std::max_element(job.symbols.begin(), job.symbols.end(),
                       [](const auto& x, const auto& y) { return x.second < y.second; });
  if (largest == job.symbols.end() || largest->second < 2)
    return "all its dimensions are fixed; without --check it takes less";
  return fmt::format("smaller sizes take less: --dim {}={}", largest->first,
                     std::max<int64_t>(1, largest->second / 8));
}

}  // namespace

Result<Work> work_of(const Job& job) {
  Work work;
  const std::vector<bool> alive = live(job.graph);
  for (uint32_t id = 0; id < job.graph.size(); ++id) {
    const ir::Node& node = job.graph.nodes()[id];
    if (!alive[id]) continue;
    ATTACCA_TRY_VOID(evaluate(node.type.shape, job.symbols));
    const double size = size_of(node.type.shape, job.symbols);
    if (node.op == ir::Op::Input) {
      if (job.inputs.count(node.name) == 0) work.made_up += size;
    } else if (node.op == ir::Op::MatMul || node.op == ir::Op::GroupedMatMul) {
      const ir::Dim& inner = job.graph.type(node.operands[0]).shape.back();
      work.multiplications += size * size_of({inner}, job.symbols);
    } else if (ir::is_reduction(node.op)) {
      work.elements += size_of(job.graph.type(node.operands[0]).shape, job.symbols);
    } else if (ir::is_elementwise(node.op) || node.op == ir::Op::Cast) {
      work.elements += size;
    }
  }
  return work;
}

Estimate estimate(const Work& work, bool on_cpu, bool check) {
  const double cores = std::max(1U, std::thread::hardware_concurrency());
  constexpr double kNeverLong = 1e9;  // multiplications: seconds on any machine
  const double product =
      work.multiplications < kNeverLong ? 0 : work.multiplications / (reference_rate() * cores);
  Estimate result;
  result.inputs = work.made_up * kMadeUp;
  if (on_cpu) result.paths = kRuns * (product / kCompiledGain + work.elements * kElement / cores);
  if (check) result.reference = product + work.elements * kReference;
  return result;
}

std::optional<std::string> long_run_note(const Job& job, const Estimate& estimate) {
  if (estimate.total() < kWorthSaying) return std::nullopt;
  std::vector<std::string> parts;
  for (const auto& [seconds, what] : {std::pair{estimate.inputs, "making inputs"},
                                      {estimate.paths, "fused and op by op"},
                                      {estimate.reference, "the f64 reference of --check"}})
    if (seconds >= 1) parts.push_back(fmt::format("{} {}", what, duration(seconds)));
  return fmt::format("note: this run takes about {} ({}); {}\n", duration(estimate.total()),
                     fmt::join(parts, ", "), advice(job));
}

}  // namespace attacca::cli
