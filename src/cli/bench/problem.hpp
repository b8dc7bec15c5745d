// What the subcommands of `attacca bench` share: the graph and region that they time, and where a
// template takes its operands.
#pragma once

#include <string>
#include <vector>

#include "cli/commands.hpp"
#include "gpu/driver/device.hpp"
#include "gpu/kernel/build.hpp"
#include "problem/region_graph.hpp"
#include "run/pipeline.hpp"

namespace attacca::cli {

// The graph, folded and cut, in the symbols M, N, K.
Result<run::Prepared> bench_graph(const BenchGemmArgs& args);
ir::SymbolValues bench_sizes(const BenchGemmArgs& args);
// Its one region, to be timed.
Result<problem::ProblemText> bench_problem(const BenchGemmArgs& args);

struct Placed {
  problem::Problem problem;
  const templates::Template* kernel = nullptr;
  epilogue::Binding binding;
  gpu::KernelRequest request;
};
// `device` nullptr: one that just suits the template, to compile without a GPU.
Result<Placed> place_in(const templates::Catalog& catalog, const std::string& kernel,
                        const BenchGemmArgs& args, const gpu::DeviceInfo* device);

// Those asked for, else every template of one product.
std::vector<std::string> template_names(const templates::Catalog& catalog,
                                        const std::vector<std::string>& asked);

}  // namespace attacca::cli
