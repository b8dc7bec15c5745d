// A prepared graph as a plan for this machine's CPU: its weights packed once, then run.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ir/interpret/interpreter.hpp"
#include "run/cpu/packed_weights.hpp"
#include "run/shared/region_time.hpp"
#include "run/shared/target.hpp"

namespace attacca::run {

struct CpuOptions {
  int threads = 0;  // 0: as many as the machine has cores
  // Inputs that never change, by name: packed once. Constants always are.
  ir::Bindings weights = {};
  // Null: the plan packs its own.
  std::shared_ptr<PackedWeights> packed = nullptr;
};

// A plan for certain values of the symbols. Immutable; run() may be called from several threads at
// once.
class CpuInstance {
 public:
  // `inputs`: addresses of the graph's inputs, laid out as it declares; `outputs`: of its outputs,
  // row-major. Returns the outputs. Computed ones are at the given addresses, unless those are
  // null.
  Result<std::vector<ir::Tensor>> run(std::span<const void* const> inputs,
                                      std::span<void* const> outputs) const;

  struct Impl;
  explicit CpuInstance(std::unique_ptr<const Impl> impl);
  ~CpuInstance();

 private:
  std::unique_ptr<const Impl> impl_;
};

// Immutable once made; run() may be called from several threads at once.
class CpuPlan {
 public:
  // Errors: a kernel of the user's, which runs on a GPU alone, weights that do not fit the graph.
  static Result<CpuPlan> make(Prepared prepared, CpuOptions options = {});

  // The graph's outputs, freshly allocated. Inputs given as weights may be left out.
  // For tests, accumulators of every GEMM node (f32 or s32, the node's shape) can be collected.
  Result<std::vector<ir::Tensor>> run(
      const ir::Bindings& inputs, std::map<ir::Value, ir::Tensor>* accumulators = nullptr) const;

  // One run, region by region. What was computed when the plan was made is not among them.
  Result<std::vector<RegionTime>> time_regions(const ir::Bindings& inputs) const;

  // May outlive the plan. REQUIRES: no inputs given as weights.
  Result<std::shared_ptr<const CpuInstance>> instance(ir::SymbolValues symbols) const;

  const fuse::Partition& partition() const;

  struct Impl;

 private:
  explicit CpuPlan(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<const Impl> impl_;
};

}  // namespace attacca::run
