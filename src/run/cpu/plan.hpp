// A prepared graph as a plan for this machine's CPU: its weights packed once, then run.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ir/interpret/interpreter.hpp"
#include "run/cpu/packed_weights.hpp"
#include "run/shared/target.hpp"

namespace attacca::run {

struct CpuOptions {
  int threads = 0;  // 0: as many as the machine has cores
  // Inputs that never change, by name: packed once. Constants always are.
  ir::Bindings weights = {};
  // Null: the plan packs its own.
  std::shared_ptr<PackedWeights> packed = nullptr;
};

// Immutable once made; run() may be called from several threads at once.
class CpuPlan {
 public:
  // Errors: a kernel of the user's, which runs on a GPU alone, weights that do not fit the graph.
  static Result<CpuPlan> make(Prepared prepared, CpuOptions options = {});
  CpuPlan(CpuPlan&&) noexcept;
  CpuPlan& operator=(CpuPlan&&) noexcept;
  ~CpuPlan();

  // The graph's outputs, freshly allocated. Inputs given as weights may be left out.
  // For tests, accumulators of every GEMM node (f32 or s32, the node's shape) can be collected.
  Result<std::vector<ir::Tensor>> run(
      const ir::Bindings& inputs, std::map<ir::Value, ir::Tensor>* accumulators = nullptr) const;

  const fuse::Partition& partition() const;

 private:
  struct Impl;
  explicit CpuPlan(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace attacca::run
