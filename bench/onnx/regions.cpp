// Times an ONNX model's regions on the CPU, by kind, each the fastest of many runs.
//
// usage: onnx_regions MODEL.onnx THREADS RUNS [INPUT=FILE.npy...]
// Prints one line a kind: microseconds, a tab, the kind.
#include <algorithm>
#include <cstdlib>
#include <map>

#include "fmt/format.h"

#include "import/files/npy.hpp"
#include "run/pipeline.hpp"

namespace attacca::bench {
namespace {

std::string kind_of(const ir::Graph& graph, const fuse::Region& region) {
  if (!region.gemms.empty()) return "products and their tails";
  if (region.kind == fuse::RegionKind::Pointwise) return "elementwise";
  const ir::Op op = graph[region.nodes[0]].op;
  if (ir::is_reduction(op)) return "reductions";
  return ir::is_elementwise(op) || op == ir::Op::Cast ? "elementwise" : "moving";
}

Result<ir::Bindings> read_inputs(const ir::Graph& graph, char** begin, char** end) {
  ir::Bindings inputs;
  for (; begin != end; ++begin) {
    const std::string text = *begin;
    const size_t at = text.find('=');
    const auto value = graph.find(text.substr(0, at));
    if (at == std::string::npos || !value)
      return fail(fmt::format("{} is no INPUT=FILE of this graph", text));
    ATTACCA_TRY(inputs[graph[*value].name],
                import::read_npy(text.substr(at + 1), graph.type(*value).dtype));
  }
  return inputs;
}

Status time_model(int count, char** arguments) {
  ATTACCA_TRY(const ir::Graph graph, run::load_graph(arguments[1]));
  ATTACCA_TRY(const ir::Bindings inputs, read_inputs(graph, arguments + 4, arguments + count));
  run::Options options;
  options.cpu.threads = std::atoi(arguments[2]);
  ATTACCA_TRY(const run::Compiled compiled, run::compile(graph, run::Target::cpu(), options));
  const run::CpuPlan& plan = compiled.cpu();
  std::vector<run::RegionTime> fastest;
  for (int left = std::atoi(arguments[3]); left > 0; --left) {
    ATTACCA_TRY(const std::vector<run::RegionTime> times, plan.time_regions(inputs));
    if (fastest.empty()) fastest = times;
    for (size_t i = 0; i < times.size(); ++i)
      fastest[i].seconds = std::min(fastest[i].seconds, times[i].seconds);
  }
  std::map<std::string, double> kinds;
  for (const run::RegionTime& each : fastest)
    kinds[kind_of(plan.partition().graph, *each.region)] += each.seconds;
  for (const auto& [kind, seconds] : kinds) fmt::print("{:.1f}\t{}\n", seconds * 1e6, kind);
  return {};
}

}  // namespace
}  // namespace attacca::bench

int main(int count, char** arguments) {
  if (count < 4) {
    fmt::print(stderr, "usage: onnx_regions MODEL.onnx THREADS RUNS [INPUT=FILE.npy...]\n");
    return 2;
  }
  const auto status = attacca::bench::time_model(count, arguments);
  if (status) return 0;
  fmt::print(stderr, "{}\n", to_string(status.error()));
  return 2;
}
