// One launch of a plan's instance, and what making it needs to know.
#pragma once

#include <functional>
#include <memory>

#include "launch/toolbox.hpp"
#include "problem/problem.hpp"
#include "run/cuda/options.hpp"
#include "run/cuda/places.hpp"
#include "run/shared/target.hpp"

namespace attacca::run {

// A prepared graph on its device: what all instances of a plan share.
struct DeviceGraph {
  Prepared prepared;
  CudaOptions options;
  std::shared_ptr<launch::Toolbox> toolbox;
  FixedPlaces places;

  const ir::Graph& graph() const { return prepared.graph(); }
};

// One launch, and the values that it reads and writes: operands of a problem, or of an op as inputs
// and its result as the output.
struct CudaStep {
  const fuse::Region* region = nullptr;  // of the plan's partition; of several, the first
  problem::Operands<ir::Value> values;
  std::function<Status(const problem::Addresses& at, void* workspace, gpu::StreamHandle stream)>
      launch;
  size_t workspace_bytes = 0;
  size_t scratch = 0;  // its workspace's offset in the instance's
};

struct StepContext {
  const DeviceGraph& shared;
  const ir::SymbolValues& symbols;
  problem::AlignmentOf alignment_of;

  const ir::Graph& graph() const { return shared.graph(); }
  const std::shared_ptr<launch::Toolbox>& toolbox() const { return shared.toolbox; }
  const CudaOptions& options() const { return shared.options; }
  ir::Mode mode() const { return shared.prepared.target.mode; }
  bool batch_invariant() const { return shared.prepared.target.batch_invariant; }
};

}  // namespace attacca::run
