// A graph compiled for this machine's CPU: fold, cut into regions, weights packed once, then run.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "fuse/fuse.hpp"
#include "ir/graph/mode.hpp"
#include "ir/interpret/interpreter.hpp"
#include "run/cpu/packed_weights.hpp"

namespace attacca::run {

struct CpuOptions {
  ir::Mode mode = ir::Mode::Fp32;
  bool fuse = true;  // false: op by op, every intermediate through memory
  int threads = 0;   // 0: as many as the machine has cores
  // Inputs that never change, by name: packed once. Constants always are.
  ir::Bindings weights = {};
  // Null: the plan packs its own.
  std::shared_ptr<PackedWeights> packed = nullptr;
};

// Immutable once compiled; run() may be called from several threads at once.
class CpuPlan {
 public:
  static Result<CpuPlan> compile(const ir::Graph& graph, CpuOptions options = {});
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
