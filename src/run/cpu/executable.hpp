// A compiled region. A plan runs its regions one after the other.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "fuse/fuse.hpp"
#include "ir/graph/mode.hpp"
#include "run/cpu/buffer_pool.hpp"
#include "run/cpu/gemm.hpp"
#include "run/cpu/rows/join.hpp"
#include "run/shared/region_time.hpp"

namespace attacca::run {

// What an executable derives from the symbols' values, once for all runs with them.
class Sizes {
 public:
  virtual ~Sizes() = default;
};

// One run of a plan.
struct RunState {
  const ir::SymbolValues& symbols;
  std::vector<ir::Tensor>
      values;  // by value id; empty before it is computed and after its last use
  BufferPool& buffers;
  int threads = 1;
  std::map<ir::Value, ir::Tensor>* accumulators = nullptr;  // wanted of every GEMM node, if set
  std::vector<ir::Tensor> places = {};  // by value id: the caller's memory for results; or empty
  std::vector<RegionTime>* times = nullptr;  // wanted of every region, if set

  // Memory for a value, row-major and uninitialised.
  Result<ir::Tensor> result(ir::Value value, ir::DType dtype, std::vector<int64_t> shape) {
    if (value.id < places.size() && places[value.id].data() != nullptr) return places[value.id];
    return buffers.tensor(dtype, std::move(shape));
  }
};

// Immutable: run() may be called from several threads at once, each with its own state.
class Executable {
 public:
  virtual ~Executable() = default;
  virtual Result<std::unique_ptr<const Sizes>> measure(const ir::SymbolValues&) const {
    return nullptr;
  }
  // Reads the region's inputs from the state's values and sets its outputs. `sizes`: what measure()
  // gave for the state's symbols. Throws std::bad_alloc.
  virtual Status run(RunState& state, const Sizes* sizes) const = 0;
};

// Values known when the plan is compiled, by value id; an empty tensor where unknown.
using KnownValues = std::vector<ir::Tensor>;

class PackedWeights;

// GEMM, gated GEMM and pointwise regions. B operands that are known are packed here, or taken from
// `shared`.
Result<std::unique_ptr<Executable>> make_epilogue_region(const ir::Graph& graph,
                                                         const fuse::Region& region, ir::Mode mode,
                                                         const KnownValues& known, int threads,
                                                         Panels panels = Panels::AsTheyAre,
                                                         PackedWeights* shared = nullptr);
std::unique_ptr<Executable> make_row_group(const RowGroup& group);
// One op on its own.
Result<std::unique_ptr<Executable>> make_single(const ir::Graph& graph, const fuse::Region& region,
                                                ir::Mode mode);

}  // namespace attacca::run
