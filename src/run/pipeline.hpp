// The whole pipeline, from a file to a plan that runs.
#pragma once

#include <string>
#include <variant>

#include "run/cpu/plan.hpp"
#include "run/cuda/plan.hpp"
#include "run/shared/output_layout.hpp"
#include "run/shared/target.hpp"

namespace attacca::run {

// Reads a model by its file's ending (import/formats.hpp).
Result<ir::Graph> load_graph(const std::string& path, const ir::SymbolValues& sizes = {});

// Folds the graph and cuts it into regions. Errors: a graph that does not verify, an output that
// cannot be stored by its strides.
Result<Prepared> prepare(const ir::Graph& graph, const Target& target,
                         const OutputStrides& strides = {});

// Options of both executors; each reads its own.
struct Options {
  CpuOptions cpu = {};
  CudaOptions cuda = {};
  OutputStrides output_strides = {};
};

struct Compiled {
  Prepared prepared;
  std::variant<CpuPlan, CudaPlan> plan;  // of the target

  // REQUIRES: a plan for it.
  const CpuPlan& cpu() const { return std::get<CpuPlan>(plan); }
  const CudaPlan& cuda() const { return std::get<CudaPlan>(plan); }

  // Computes the outputs from inputs in host memory. Errors: inputs that do not fit, the device's.
  Result<std::vector<ir::Tensor>> run(const ir::Bindings& inputs) const;
};

// prepare(), then the executor's plan.
Result<Compiled> compile(const ir::Graph& graph, const Target& target, Options options = {});

}  // namespace attacca::run
