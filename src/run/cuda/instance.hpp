// A plan for certain sizes: its kernels loaded, its buffers laid out in one workspace.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "run/cuda/decision.hpp"
#include "run/cuda/step.hpp"
#include "run/shared/region_time.hpp"

namespace attacca::run {

// A plan for certain values of the symbols and alignments of the operands. Immutable.
class CudaInstance {
 public:
  ~CudaInstance();
  // Device memory that a launch needs, aligned to 256 bytes.
  size_t workspace_bytes() const;
  // The shapes of the graph's outputs, which are dense.
  const std::vector<std::vector<int64_t>>& output_shapes() const;
  const std::vector<Decision>& decisions() const;

  // Device addresses of the graph's inputs and outputs, in the graph's order, laid out as it
  // declares. Puts all work on the stream (a CUstream) and waits for nothing. Allocates nothing on
  // the device, and on the host only while other threads launch. Launches at the same time need
  // workspaces of their own. Errors: an address is less aligned than the instance was made for.
  Status launch(std::span<void* const> inputs, std::span<void* const> outputs, void* workspace,
                void* stream) const;

  // The same, with events between the steps: no kernel starts before the one in front of it ended.
  // Waits for the stream.
  Result<std::vector<RegionTime>> time_regions(std::span<void* const> inputs,
                                               std::span<void* const> outputs, void* workspace,
                                               void* stream) const;

  struct Impl;
  explicit CudaInstance(std::unique_ptr<Impl> impl);

 private:
  std::unique_ptr<Impl> impl_;
};

// Decides how to compute every region and makes its kernels ready. `alignments`: bytes, one
// for each input of the graph, then one for each output.
Result<std::shared_ptr<const CudaInstance>> make_instance(const DeviceGraph& shared,
                                                          const ir::SymbolValues& symbols,
                                                          const std::vector<int>& alignments);

}  // namespace attacca::run
