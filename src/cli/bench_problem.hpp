// What the subcommands of `attacca bench` share: the graph and region that they time, and where a
// template takes its operands.
#pragma once

#include <string>
#include <vector>

#include "cli/commands.hpp"
#include "jit/device.hpp"
#include "jit/jit.hpp"
#include "run/pipeline.hpp"
#include "tune/region_graph.hpp"

namespace attacca::cli {

// The graph, folded and cut, in the symbols M, N, K.
Result<run::Prepared> bench_graph(const BenchGemmArgs& args);
ir::SymbolValues bench_sizes(const BenchGemmArgs& args);
// Its one region, to be timed.
Result<tune::ProblemText> bench_problem(const BenchGemmArgs& args);

struct Placed {
  tune::Problem problem;
  const templates::Template* kernel = nullptr;
  epilogue::Binding binding;
  jit::KernelRequest request;
};
// `device` nullptr: one that just suits the template, to compile without a GPU.
Result<Placed> place_in(const templates::Catalog& catalog, const std::string& kernel,
                        const BenchGemmArgs& args, const jit::DeviceInfo* device);

// Those asked for, else every template of one product.
std::vector<std::string> template_names(const templates::Catalog& catalog,
                                        const std::vector<std::string>& asked);

}  // namespace attacca::cli
