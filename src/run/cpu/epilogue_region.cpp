// GEMM, gated and pointwise regions: tiles of accumulators, each finished by the epilogue while it
// is in cache.
#include <algorithm>

#include "run/cpu/epilogue_runner.hpp"
#include "run/cpu/executable.hpp"
#include "run/cpu/products.hpp"
#include "run/cpu/reduce.hpp"
#include "run/cpu/thread_pool.hpp"
#include "run/shared/access.hpp"

namespace attacca::run {
namespace {

using epilogue::Role;
using ir::Tensor;

// Elements of a pointwise tile.
constexpr int64_t kTileElements = 32 * 1024;

int64_t divide_up(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

int64_t product(const std::vector<int64_t>& extents) {
  int64_t count = 1;
  for (const int64_t extent : extents) count *= extent;
  return count;
}

class EpilogueRegion : public Executable {
 public:
  EpilogueRegion(const ir::Graph& graph, const fuse::Region& region, ir::Mode mode)
      : region_(region),
        epilogue_(region_.epilogue),
        program_(compile_chunk_program(epilogue_, mode)),
        products_(region_) {
    for (const epilogue::Output& output : epilogue_.outputs)
      result_shapes_.push_back(graph.type(output.result).shape);
  }

  Status pack_known(const KnownValues& known, PackedWeights* shared, int threads) {
    return products_.pack_known(known, shared, threads);
  }

  Status run(RunState& state) const override {
    ATTACCA_TRY(const std::vector<int64_t> domain, evaluate(epilogue_.domain, state.symbols));
    ATTACCA_TRY(std::vector<Tensor> results, make_results(state));
    ATTACCA_TRY(std::vector<Tensor> stored, make_stored(state, domain, results));
    ATTACCA_TRY(std::vector<BoundAccess> inputs, bind_inputs(state));
    ATTACCA_TRY(std::vector<BoundAccess> outputs, bind_outputs(state, domain, stored));
    const BoundEpilogue bound(epilogue_, program_, domain, std::move(inputs), std::move(outputs));
    if (products_.empty())
      run_pointwise(bound, state.threads);
    else
      ATTACCA_TRY_VOID(run_gemms(bound, state, domain));
    finish_reductions(state, stored, results);
    for (size_t i = 0; i < results.size(); ++i)
      state.values[epilogue_.outputs[i].result.id] = std::move(results[i]);
    return {};
  }

 private:
  bool is_store(size_t output) const {
    return epilogue_.outputs[output].kind == epilogue::OutputKind::Store;
  }

  Result<std::vector<Tensor>> make_results(RunState& state) const {
    std::vector<Tensor> results;
    for (size_t i = 0; i < result_shapes_.size(); ++i) {
      ATTACCA_TRY(auto shape, evaluate(result_shapes_[i], state.symbols));
      ATTACCA_TRY(Tensor result,
                  state.buffers.tensor(epilogue_.outputs[i].dtype, std::move(shape)));
      results.push_back(std::move(result));
    }
    return results;
  }

  // What the chunk program writes: the results, or the whole values that a reduction will read.
  Result<std::vector<Tensor>> make_stored(RunState& state, const std::vector<int64_t>& domain,
                                          const std::vector<Tensor>& results) const {
    std::vector<Tensor> stored;
    for (size_t i = 0; i < results.size(); ++i) {
      if (is_store(i)) {
        stored.push_back(results[i]);
        continue;
      }
      ATTACCA_TRY(Tensor whole, state.buffers.tensor(program_.stores[i].dtype, domain));
      stored.push_back(std::move(whole));
    }
    return stored;
  }

  Result<std::vector<BoundAccess>> bind_inputs(RunState& state) const {
    std::vector<BoundAccess> bound;
    for (const epilogue::Input& input : epilogue_.inputs) {
      if (input.role == Role::Accumulator) {
        bound.emplace_back();
        continue;
      }
      ATTACCA_TRY(Strides access, evaluate_access(input.access, state.symbols));
      std::byte* data = state.values[input.source.id].data();
      bound.push_back({data + access.offset * ir::size_of(input.dtype), std::move(access.strides)});
    }
    return bound;
  }

  Result<std::vector<BoundAccess>> bind_outputs(RunState& state, const std::vector<int64_t>& domain,
                                                std::vector<Tensor>& stored) const {
    std::vector<BoundAccess> bound;
    for (size_t i = 0; i < stored.size(); ++i) {
      const epilogue::Output& output = epilogue_.outputs[i];
      Strides access{0, ir::contiguous_strides(domain)};
      if (is_store(i)) {
        ATTACCA_TRY(access, evaluate_access(output.access, state.symbols));
      }
      bound.push_back({stored[i].data() + access.offset * ir::size_of(stored[i].dtype()),
                       std::move(access.strides)});
    }
    return bound;
  }

  void finish_reductions(RunState& state, const std::vector<Tensor>& stored,
                         std::vector<Tensor>& results) const {
    for (size_t i = 0; i < results.size(); ++i) {
      if (is_store(i)) continue;
      const epilogue::Output& output = epilogue_.outputs[i];
      std::vector<bool> reduced;
      for (const ir::Dim& stride : output.access.strides) reduced.push_back(stride.is(0));
      reduce(output.reduction, stored[i], reduced, results[i], state.threads);
    }
  }

  void run_pointwise(const BoundEpilogue& bound, int threads) const {
    const int64_t rows = bound.domain()[bound.domain().size() - 2];
    const int64_t columns = bound.domain().back();
    if (product(bound.domain()) == 0) return;
    const int64_t wide = std::min(columns, kTileElements);
    const int64_t tall = std::clamp<int64_t>(kTileElements / wide, 1, rows);
    const int64_t across = divide_up(columns, wide), down = divide_up(rows, tall);
    ThreadPool::shared().run(threads, bound.batches() * across * down, [&](int64_t task) {
      thread_local ChunkScratch scratch;
      const int64_t column0 = task % across * wide, row0 = task / across % down * tall;
      bound.run({task / across / down, row0, std::min(rows, row0 + tall), column0,
                 std::min(columns, column0 + wide)},
                {}, scratch);
    });
  }

  Status run_gemms(const BoundEpilogue& bound, RunState& state,
                   const std::vector<int64_t>& domain) const {
    ATTACCA_TRY(const std::vector<PreparedProduct> prepared, products_.prepare(state, domain));
    const int64_t rows = domain[domain.size() - 2], columns = domain.back();
    if (product(domain) == 0) return {};
    const int64_t wide = block_columns(columns);
    const int64_t across = divide_up(columns, wide), down = divide_up(rows, kTileRows);
    ThreadPool::shared().run(state.threads, bound.batches() * across * down, [&](int64_t task) {
      const int64_t row0 = task % down * kTileRows, block = task / down % across;
      run_tile(bound, prepared,
               {task / down / across, row0, std::min(rows, row0 + kTileRows), block * wide,
                std::min(columns, (block + 1) * wide)},
               block);
    });
    return {};
  }

  void run_tile(const BoundEpilogue& bound, const std::vector<PreparedProduct>& prepared,
                const Tile& tile, int64_t block) const {
    thread_local ChunkScratch scratch;
    thread_local std::vector<AlignedBuffer> buffers;
    if (buffers.size() < prepared.size()) buffers.resize(prepared.size());
    const int64_t rows = tile.row1 - tile.row0, columns = tile.column1 - tile.column0;
    std::vector<AccumulatorTile> accumulators;
    for (size_t i = 0; i < prepared.size(); ++i) {
      std::byte* out = buffers[i].reserve(static_cast<size_t>(rows * columns) * sizeof(double));
      prepared[i].multiply(tile, block, bound.domain(), out);
      accumulators.push_back({out, columns});
    }
    bound.run(tile, accumulators, scratch);
  }

  const fuse::Region region_;
  const epilogue::Epilogue& epilogue_;
  const ChunkProgram program_;
  std::vector<ir::Shape> result_shapes_;
  Products products_;
};

}  // namespace

Result<std::unique_ptr<Executable>> make_epilogue_region(const ir::Graph& graph,
                                                         const fuse::Region& region, ir::Mode mode,
                                                         const KnownValues& known, int threads,
                                                         PackedWeights* shared) {
  auto made = std::make_unique<EpilogueRegion>(graph, region, mode);
  ATTACCA_TRY_VOID(made->pack_known(known, shared, threads));
  return made;
}

}  // namespace attacca::run
