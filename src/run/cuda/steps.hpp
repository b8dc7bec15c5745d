// What an instance of a plan runs one after the other on the device.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "gpu/driver/device.hpp"
#include "launch/runnable.hpp"
#include "run/cuda/plan.hpp"

namespace attacca::run {

// A value's place during a launch: the caller's memory, the plan's constants or the workspace.
struct Place {
  enum class Kind : uint8_t { None, Input, Output, Constant, Workspace };
  Kind kind = Kind::None;
  size_t index = 0;  // Input, Output: which of the graph's. Constant, Workspace: the offset
};

// Addresses of one launch.
struct Bases {
  std::span<void*const> inputs, outputs;
  char* constants = nullptr;
  char* workspace = nullptr;

  void* at(const Place& place) const;
};

// One launch, and the values that it reads and writes: operands of a problem, or of an op as inputs
// and its result as the output.
struct CudaStep {
  problem::Operands<ir::Value> values;
  std::function<Status(const problem::Addresses& at, void* workspace, gpu::StreamHandle stream)>
      launch;
  size_t workspace_bytes = 0;
  size_t scratch = 0;  // its workspace's offset in the instance's
};

// What making steps needs to know.
struct StepContext {
  const ir::Graph& graph;
  const CudaOptions& options;
  std::shared_ptr<launch::Toolbox> toolbox;
  const ir::SymbolValues& symbols;
  problem::AlignmentOf alignment_of;
  std::shared_ptr<const fuse::Partition> partition = {};  // of the regions, kept by decisions
};

// The steps of a region, and how it was decided to compute it.
Result<std::vector<CudaStep>> make_steps(const StepContext& context, const fuse::Region& region,
                                         std::vector<Decision>& decisions);

// Reductions and gathers, by kernels of their own.
Result<std::vector<CudaStep>> make_single_steps(const StepContext& context,
                                                const fuse::Region& region);

}  // namespace attacca::run
