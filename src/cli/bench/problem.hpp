// Shared by the subcommands of `attacca bench`: the graph and region that they time, and a
// template's placement of operands.
#pragma once

#include <string>
#include <vector>

#include "cli/commands.hpp"
#include "gpu/driver/device.hpp"
#include "gpu/kernel/build.hpp"
#include "launch/candidate.hpp"
#include "problem/region_graph.hpp"
#include "templates/catalog.hpp"

namespace attacca::cli {

// The number of the GPU that --device names: "cuda", "cuda:1" or "1". Errors: no name of a GPU.
Result<int> bench_gpu(const BenchGemmArgs& args);

// The graph in the symbols M, N, K, and their values.
Result<ir::Graph> bench_graph(const BenchGemmArgs& args);
ir::SymbolValues bench_sizes(const BenchGemmArgs& args);
// The graph's only region.
Result<problem::ProblemText> bench_problem(const BenchGemmArgs& args);

struct Placed {
  problem::Problem problem;
  const templates::Template* kernel = nullptr;
  launch::Candidate candidate;
  gpu::KernelRequest request;
};
// `device` nullptr: a device with the template's architecture, to compile without a GPU.
Result<Placed> place_in(const templates::Catalog& catalog, const std::string& kernel,
                        const BenchGemmArgs& args, const gpu::DeviceInfo* device);

// The templates that the arguments name, else all templates of one product.
std::vector<std::string> template_names(const templates::Catalog& catalog,
                                        const std::vector<std::string>& asked);

}  // namespace attacca::cli
