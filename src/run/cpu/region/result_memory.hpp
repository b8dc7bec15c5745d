// The memory that a run of a region writes: its results, and the values that its reductions read.
// Outputs with the same values share memory.
#pragma once

#include <vector>

#include "run/cpu/chunk_program.hpp"
#include "run/cpu/epilogue_runner.hpp"
#include "run/cpu/region/sizes.hpp"

namespace attacca::run {

class ResultMemory {
 public:
  // `epilogue` and its `program` must outlive this.
  ResultMemory(const ir::Graph& graph, const epilogue::Epilogue& epilogue,
               const ChunkProgram& program, ir::Mode mode);

  const epilogue::Output& output(size_t index) const { return epilogue_.outputs[index]; }
  // What the chunk program stores for an output: for reductions, unrounded values.
  ir::DType stored_dtype(size_t output) const { return program_.stores[output].dtype; }

  bool is_store(size_t output) const;
  // Whether the output is reduced tile by tile, while a tile is in cache. Other reductions read all
  // of their values once these are stored.
  bool is_tiled(size_t output, const RegionSizes& sizes) const;
  // The output whose memory holds the values that a reduction reads, or that a result shares with
  // an earlier one: `output` itself if it shares none. Reductions share all of the values, or their
  // tiles.
  size_t output_that_holds(size_t output, const RegionSizes& sizes) const;

  // The results, by output. Those that share memory with an earlier one own a part of it.
  Result<std::vector<ir::Tensor>> make_results(RunState& state, const RegionSizes& sizes) const;
  // What the chunk program writes, by output: the results, or the unrounded values that a reduction
  // reads, which it may share with other reductions and with a result.
  Result<std::vector<ir::Tensor>> make_stored(RunState& state, const RegionSizes& sizes,
                                              const std::vector<ir::Tensor>& results) const;
  // Where the chunk program stores each output of make_stored(). No address: another output holds
  // it, or its tiles are reduced.
  std::vector<BoundAccess> bind(const RegionSizes& sizes, std::vector<ir::Tensor>& stored) const;

 private:
  const epilogue::Epilogue& epilogue_;
  const ChunkProgram& program_;
  const ir::Mode mode_;
  std::vector<bool> is_graph_output_;  // by output
};

}  // namespace attacca::run
