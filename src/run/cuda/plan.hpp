// A prepared graph as a plan for one GPU. For every shape it computes each region in the fastest
// known way.
#pragma once

#include <memory>
#include <vector>

#include "run/cuda/instance.hpp"
#include "run/cuda/options.hpp"
#include "run/shared/target.hpp"

namespace attacca::run {

// Immutable once made, thread-safe.
class CudaPlan {
 public:
  // Errors: no CUDA device or library (with what to install), packed weights that are damaged.
  // REQUIRES: prepared for a device.
  static Result<CudaPlan> make(Prepared prepared, CudaOptions options = {});
  CudaPlan(CudaPlan&&) noexcept;
  CudaPlan& operator=(CudaPlan&&) noexcept;
  ~CudaPlan();

  // `alignments`: bytes, one for each input, then for each output; empty: 16 each. Equal arguments
  // give the same instance. The first call may compile kernels, and time them if the options say
  // so. Errors: an op without a kernel.
  Result<std::shared_ptr<const CudaInstance>> instance(
      const ir::SymbolValues& symbols, const std::vector<int>& alignments = {}) const;

  const fuse::Partition& partition() const;
  const DeviceGraph& shared() const;
  const std::shared_ptr<launch::Toolbox>& toolbox() const;

 private:
  struct Impl;
  explicit CudaPlan(std::shared_ptr<Impl> impl);
  std::shared_ptr<Impl> impl_;
};

}  // namespace attacca::run
