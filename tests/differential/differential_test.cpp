// Random graphs through the whole pipeline: fp32 mode against f64 within the derived bound, eager
// mode bit for bit against the interpreter on the same accumulators. ATTACCA_GRAPHS sets how many
// (default 10000), ATTACCA_SEED the first seed; a failure prints the seed and a minimal graph.
#include <cmath>
#include <cstring>

#include "fmt/format.h"
#include "gtest/gtest.h"

#include "differential/random_graph.hpp"
#include "differential/shrink.hpp"
#include "ir/text/text.hpp"
#include "run/check/error_bound.hpp"
#include "run/pipeline.hpp"
#include "setting.hpp"

namespace attacca::testing {
namespace {

using ir::Bindings;
using ir::Graph;
using ir::Tensor;

// Groups of products that were joined.
int64_t joined = 0;

// Why the run of a graph is wrong; empty if it is right.
using Check = std::string (*)(const Graph&, const Bindings&);

std::vector<bool> stored_values(const fuse::Partition& partition) {
  std::vector<bool> stored(partition.graph.size(), false);
  for (const fuse::Region& region : partition.regions)
    for (const ir::Value value : region.outputs) stored[value.id] = true;
  for (const ir::Output& output : partition.graph.outputs()) stored[output.value.id] = true;
  return stored;
}

// The number of elements with a finite bound, and of all: without bounds the test would pass for
// any result.
struct Coverage {
  int64_t bounded = 0, all = 0;
};
Coverage coverage;

std::string outside_bound(const run::Bounded& bound, const Tensor& got, const std::string& name) {
  for (int64_t i = 0; i < got.size(); ++i) {
    ++coverage.all;
    if (!bound.promises(i)) continue;
    ++coverage.bounded;
    const double value = got.number_at(i);
    if (!bound.allows(i, value))
      return fmt::format("{}[{}] is {}, f64 says {} +- {}", name, i, value,
                         bound.value[static_cast<size_t>(i)], bound.error(i));
  }
  return {};
}

std::string outside_bounds(const std::vector<run::Bounded>& bounds,
                           const std::vector<Tensor>& outputs, const Graph& graph) {
  for (size_t i = 0; i < bounds.size(); ++i)
    if (auto wrong = outside_bound(bounds[i], outputs[i], graph.outputs()[i].name); !wrong.empty())
      return wrong;
  return {};
}

std::string check_fp32(const Graph& graph, const Bindings& inputs) {
  const auto compiled = run::compile(graph, run::Target::cpu());
  if (!compiled) return "compile: " + to_string(compiled.error());
  const auto outputs = compiled->run(inputs);
  if (!outputs) return "run: " + to_string(outputs.error());
  const fuse::Partition& partition = *compiled->prepared.partition;
  const auto bounds =
      run::error_bounds(partition.graph, inputs, {.stored = stored_values(partition)});
  if (!bounds) return "bounds: " + to_string(bounds.error());
  return outside_bounds(*bounds, *outputs, graph);
}

bool same_bits(const Tensor& a, const Tensor& b, int64_t at) {
  if (ir::is_float(a.dtype()) && std::isnan(a.number_at(at)) && std::isnan(b.number_at(at)))
    return true;
  const auto width = ir::size_of(a.dtype());
  return std::memcmp(a.data() + at * width, b.data() + at * width, static_cast<size_t>(width)) == 0;
}

std::string check_eager(const Graph& graph, const Bindings& inputs) {
  const auto compiled = run::compile(graph, run::Target::cpu(ir::Mode::Eager));
  if (!compiled) return "compile: " + to_string(compiled.error());
  ir::InterpreterOptions options{.precision = ir::Precision::Eager};
  const auto outputs = compiled->cpu().run(inputs, &options.accumulators);
  if (!outputs) return "run: " + to_string(outputs.error());
  const auto wanted = ir::interpret(compiled->prepared.graph(), inputs, options);
  if (!wanted) return "interpret: " + to_string(wanted.error());
  for (size_t i = 0; i < wanted->size(); ++i)
    for (int64_t at = 0; at < (*wanted)[i].size(); ++at)
      if (!same_bits((*outputs)[i], (*wanted)[i], at))
        return fmt::format("{}[{}] is {}, the interpreter says {}", graph.outputs()[i].name, at,
                           (*outputs)[i].number_at(at), (*wanted)[i].number_at(at));
  return {};
}

// Of the graph as it was made: what is joined is not compared with itself.
std::string check_joined(const Graph& graph, const Bindings& inputs) {
  const auto compiled = run::compile(graph, run::Target::cpu());
  if (!compiled) return "compile: " + to_string(compiled.error());
  for (const fold::Applied& applied : compiled->prepared.folds)
    joined += applied.rule == "joined products";
  const auto outputs = compiled->run(inputs);
  if (!outputs) return "run: " + to_string(outputs.error());
  const auto bounds = run::error_bounds(graph, inputs);
  if (!bounds) return "bounds: " + to_string(bounds.error());
  return outside_bounds(*bounds, *outputs, graph);
}

void run_many(Check check, uint64_t seed_offset, Graph (*make)(uint64_t) = random_graph,
              uint64_t one_in = 1) {
  const uint64_t count = setting("ATTACCA_GRAPHS", 10000) / one_in;
  const uint64_t first = setting("ATTACCA_SEED", 1);
  uint64_t compared = 0;
  for (uint64_t seed = first; seed < first + count; ++seed) {
    const Graph graph = make(seed);
    const uint64_t data_seed = seed + seed_offset;
    const auto fails = [&](const Graph& candidate) {
      return !check(candidate, random_bindings(candidate, data_seed)).empty();
    };
    ++compared;
    if (!fails(graph)) continue;
    const Graph minimal = shrink(graph, fails);
    FAIL() << "seed " << seed << ": " << check(minimal, random_bindings(minimal, data_seed)) << "\n"
           << ir::print_graph(minimal);
  }
  fmt::print("{} graphs, seeds {} to {}\n", compared, first, first + count - 1);
}

TEST(Differential, Fp32StaysWithinTheDerivedBound) {
  run_many(check_fp32, 0);
  fmt::print("{} of {} elements had a finite bound\n", coverage.bounded, coverage.all);
  EXPECT_GT(coverage.bounded * 10, coverage.all * 6);
}

TEST(Differential, JoinedProductsStayWithinTheBoundOfTheGraph) {
  joined = 0;
  run_many(check_joined, 0, random_projections, 5);
  fmt::print("{} groups of products were joined\n", joined);
  EXPECT_GT(joined, 0);
}

TEST(Differential, EagerIsBitIdenticalToTheInterpreter) {
  run_many(check_eager, 1000000);
}

}  // namespace
}  // namespace attacca::testing
