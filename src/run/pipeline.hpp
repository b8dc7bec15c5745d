// The whole way of a graph, top to bottom: a file goes in, a plan that runs comes out.
#pragma once

#include <string>
#include <variant>

#include "run/cpu/plan.hpp"
#include "run/cuda/plan.hpp"
#include "run/shared/output_layout.hpp"
#include "run/shared/target.hpp"

namespace attacca::run {

// Reads a model by its file's ending (import/formats.hpp).
Result<ir::Graph> load_graph(const std::string& path);

// The graph folded and cut into regions, for those who look at it. Errors: a graph that does not
// verify, an output that cannot be stored by its strides.
Result<Prepared> prepare(const ir::Graph& graph, const Target& target,
                         const OutputStrides& strides = {});

// Each executor reads its own.
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

  // The outputs of inputs in host memory. Errors: those of binding them, of the device.
  Result<std::vector<ir::Tensor>> run(const ir::Bindings& inputs) const;
};

// prepare(), then the executor's plan.
Result<Compiled> compile(const ir::Graph& graph, const Target& target, Options options = {});

}  // namespace attacca::run
