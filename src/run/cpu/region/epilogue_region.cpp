// GEMM, gated and pointwise regions: tiles of accumulators, each finished by the epilogue while it
// is in cache.
#include <algorithm>

#include "fuse/views.hpp"
#include "run/cpu/executable.hpp"
#include "run/cpu/indexed.hpp"
#include "run/cpu/region/gemm_tiles.hpp"
#include "run/cpu/region/result_memory.hpp"
#include "run/cpu/region/tiled_reductions.hpp"
#include "run/cpu/region/tiling.hpp"
#include "run/cpu/thread_pool.hpp"
#include "run/shared/extents.hpp"

namespace attacca::run {
namespace {

using epilogue::Role;
using ir::Tensor;

// Multiplications that are worth another thread.
constexpr int64_t kWorthMultiplying = 256 * 1024;

template <class Axes>
void rotate(Axes& axes, typename Axes::value_type first) {
  axes.pop_back();
  axes.insert(axes.begin(), std::move(first));
}

// A pointwise region whose rows have one element is one of its columns.
fuse::Region with_long_rows(fuse::Region region) {
  epilogue::Epilogue& epilogue = region.epilogue;
  if (!is_pointwise(epilogue)) return region;
  const auto one = [](const ir::Dim& extent) { return extent.is(1); };
  if (std::all_of(epilogue.domain.begin(), epilogue.domain.end(), one)) return region;
  while (epilogue.domain.back().is(1)) {
    rotate(epilogue.domain, 1);
    for (epilogue::Input& input : epilogue.inputs) {
      rotate(input.access.strides, 0);
      input.role = fuse::role_of(input.access.strides);
    }
    for (epilogue::Output& output : epilogue.outputs) rotate(output.access.strides, 0);
  }
  return region;
}

// The rows that the indices of a region's inputs and outputs name; empty where there is no index.
struct ChosenRows {
  std::vector<std::vector<int64_t>> inputs, outputs;
};

class EpilogueRegion : public Executable {
 public:
  EpilogueRegion(const ir::Graph& graph, const fuse::Region& region, ir::Mode mode, Panels panels)
      : region_(with_long_rows(region)),
        mode_(mode),
        epilogue_(region_.epilogue),
        program_(compile_chunk_program(epilogue_, mode)),
        memory_(graph, epilogue_, program_, mode),
        products_(graph, region_, panels) {
    for (const epilogue::Input& input : epilogue_.inputs)
      input_indices_.push_back(label(graph, input.rows));
    for (const epilogue::Output& output : epilogue_.outputs) {
      result_shapes_.push_back(graph.type(output.result).shape);
      output_indices_.push_back(label(graph, output.rows));
    }
  }

  static std::string label(const ir::Graph& graph, const std::optional<epilogue::RowIndex>& rows) {
    return rows ? epilogue::display_name(graph, rows->source) : "";
  }

  Status pack_known(const KnownValues& known, PackedWeights* shared, int threads) {
    return products_.pack_known(known, shared, threads);
  }

  Result<std::unique_ptr<const Sizes>> measure(const ir::SymbolValues& symbols) const override {
    auto sizes = std::make_unique<RegionSizes>();
    ATTACCA_TRY(sizes->domain, evaluate(epilogue_.domain, symbols));
    for (const ir::Shape& each : result_shapes_) {
      ATTACCA_TRY(sizes->results.emplace_back(), evaluate(each, symbols));
    }
    for (const epilogue::Input& input : epilogue_.inputs) {
      ConcreteAccess& access = sizes->inputs.emplace_back();
      RowSizes& rows = sizes->input_rows.emplace_back();
      int64_t& group_stride = sizes->group_strides.emplace_back(0);
      if (input.role == Role::Accumulator) continue;
      ATTACCA_TRY(access, evaluate_access(input.access, symbols));
      if (input.group_stride) {
        ATTACCA_TRY(const ConcreteAccess groups,
                    evaluate_access({0, {*input.group_stride}}, symbols));
        group_stride = groups.strides[0];
      }
      if (!input.rows) continue;
      ATTACCA_TRY(rows, measure_rows(*input.rows, symbols));
    }
    for (size_t i = 0; i < epilogue_.outputs.size(); ++i) {
      ConcreteAccess& access = sizes->outputs.emplace_back();
      access.strides = ir::contiguous_strides(sizes->domain);
      ATTACCA_TRY_VOID(measure_added(epilogue_.outputs[i], symbols, *sizes));
      if (!memory_.is_store(i)) continue;
      ATTACCA_TRY(access, evaluate_access(epilogue_.outputs[i].access, symbols));
    }
    ATTACCA_TRY(sizes->products, products_.measure(symbols, sizes->domain));
    return sizes;
  }

  Status run(RunState& state, const Sizes* measured) const override {
    const auto& sizes = static_cast<const RegionSizes&>(*measured);
    ATTACCA_TRY(const ChosenRows rows, choose_rows(state, sizes));
    ATTACCA_TRY(std::vector<Tensor> results, memory_.make_results(state, sizes));
    ATTACCA_TRY(std::vector<Tensor> stored, memory_.make_stored(state, sizes, results));
    const BoundEpilogue bound(epilogue_, program_, sizes.domain, bind_inputs(state, sizes, rows),
                              memory_.bind(sizes, stored));
    const TiledReductions tiled(memory_, sizes, mode_, results, stored);
    if (products_.empty())
      run_pointwise(bound, state.threads);
    else
      ATTACCA_TRY_VOID(run_gemms(bound, state, sizes, tiled));
    add_rows_of(state, sizes, rows, stored, results);
    finish_reductions(state, sizes, stored, results);
    tiled.finish_rows();
    for (size_t i = 0; i < results.size(); ++i)
      state.values[epilogue_.outputs[i].result.id] = std::move(results[i]);
    return {};
  }

 private:
  static Status measure_added(const epilogue::Output& output, const ir::SymbolValues& symbols,
                              RegionSizes& sizes) {
    RowSizes& rows = sizes.output_rows.emplace_back();
    ConcreteAccess& base = sizes.bases.emplace_back();
    if (!output.rows) return {};
    ATTACCA_TRY(rows, measure_rows(*output.rows, symbols));
    ATTACCA_TRY(base, evaluate_access(output.base_access, symbols));
    return {};
  }

  Result<ChosenRows> choose_rows(const RunState& state, const RegionSizes& sizes) const {
    ChosenRows chosen;
    const int64_t count = sizes.domain[sizes.domain.size() - 2];
    const auto choose = [&](const std::optional<epilogue::RowIndex>& index, const RowSizes& rows,
                            ir::Op op, const std::string& name) -> Result<std::vector<int64_t>> {
      if (!index) return std::vector<int64_t>();
      return rows_of(state.values[index->source.id], rows, count, op, name);
    };
    for (size_t i = 0; i < sizes.inputs.size(); ++i) {
      ATTACCA_TRY(
          chosen.inputs.emplace_back(),
          choose(epilogue_.inputs[i].rows, sizes.input_rows[i], ir::Op::Gather, input_indices_[i]));
    }
    for (size_t i = 0; i < sizes.outputs.size(); ++i) {
      ATTACCA_TRY(chosen.outputs.emplace_back(),
                  choose(epilogue_.outputs[i].rows, sizes.output_rows[i], ir::Op::ScatterAdd,
                         output_indices_[i]));
    }
    return chosen;
  }

  std::vector<BoundAccess> bind_inputs(RunState& state, const RegionSizes& sizes,
                                       const ChosenRows& rows) const {
    std::vector<BoundAccess> bound;
    for (size_t i = 0; i < sizes.inputs.size(); ++i) {
      const epilogue::Input& input = epilogue_.inputs[i];
      const ConcreteAccess& access = sizes.inputs[i];
      std::byte* data =
          input.role == Role::Accumulator
              ? nullptr
              : state.values[input.source.id].data() + access.offset * ir::size_of(input.dtype);
      bound.push_back({data, access.strides, input.rows ? rows.inputs[i].data() : nullptr,
                       sizes.group_strides[i]});
    }
    return bound;
  }

  void add_rows_of(RunState& state, const RegionSizes& sizes, const ChosenRows& rows,
                   const std::vector<Tensor>& stored, std::vector<Tensor>& results) const {
    for (size_t i = 0; i < results.size(); ++i) {
      const epilogue::Output& output = epilogue_.outputs[i];
      if (!output.rows) continue;
      const ConcreteAccess& access = sizes.bases[i];
      const std::vector<int64_t>& shape = sizes.results[i];
      const std::byte* base = state.values[output.base.id].data();
      const MatrixView to{base + access.offset * ir::size_of(output.dtype),
                          output.dtype,
                          shape[0],
                          shape[1],
                          access.strides[0],
                          access.strides[1]};
      const MatrixView updates{stored[i].data(), stored[i].dtype(), sizes.domain[0],
                               sizes.domain[1],  sizes.domain[1],   1};
      add_rows(to, updates, rows.outputs[i], results[i].data(), mode_, state.threads);
    }
  }

  void finish_reductions(RunState& state, const RegionSizes& sizes,
                         const std::vector<Tensor>& stored, std::vector<Tensor>& results) const {
    for (size_t i = 0; i < results.size(); ++i) {
      if (memory_.is_store(i) || epilogue_.outputs[i].rows || memory_.is_tiled(i, sizes)) continue;
      const epilogue::Output& output = epilogue_.outputs[i];
      std::vector<bool> reduced;
      for (const ir::Dim& stride : output.access.strides) reduced.push_back(stride.is(0));
      reduce(output.reduction, stored[i], reduced, results[i], mode_, state.threads);
    }
  }

  void run_pointwise(const BoundEpilogue& bound, int threads) const {
    const int64_t rows = bound.domain()[bound.domain().size() - 2];
    const int64_t columns = bound.domain().back();
    if (count_of(bound.domain()) == 0) return;
    const TileExtents tile = pointwise_tile(rows, columns);
    const int64_t across = divide_up(columns, tile.columns), down = divide_up(rows, tile.rows);
    ThreadPool::shared().run(threads, bound.batches() * across * down, [&](int64_t task) {
      thread_local ChunkScratch scratch;
      const int64_t column0 = task % across * tile.columns;
      const int64_t row0 = task / across % down * tile.rows;
      bound.run({task / across / down, row0, std::min(rows, row0 + tile.rows), column0,
                 std::min(columns, column0 + tile.columns)},
                {}, scratch);
    });
  }

  Status run_gemms(const BoundEpilogue& bound, RunState& state, const RegionSizes& sizes,
                   const TiledReductions& tiled) const {
    const std::optional<Groups> groups = products_.groups(state, sizes.products);
    ATTACCA_TRY(const std::vector<PreparedProduct> prepared,
                products_.prepare(state, sizes.products, groups));
    if (count_of(sizes.domain) == 0) return {};
    if (groups && groups->ends.empty() && reads_by_group(epilogue_))
      return fail("gather index 0 is outside an axis of 0", "a product of no groups",
                  "use indices inside the axis");
    const int threads =
        worth(state.threads, multiplications(sizes.domain, prepared), kWorthMultiplying);
    const GemmTiles tiles{bound, prepared, tiled};
    groups ? run_group_tiles(tiles, *groups, threads) : run_gemm_tiles(tiles, threads);
    return {};
  }

  const fuse::Region region_;
  const ir::Mode mode_;
  const epilogue::Epilogue& epilogue_;
  const ChunkProgram program_;
  const ResultMemory memory_;
  std::vector<ir::Shape> result_shapes_;
  std::vector<std::string> input_indices_, output_indices_;  // names, where an index is read
  Products products_;
};

}  // namespace

Result<std::unique_ptr<Executable>> make_epilogue_region(const ir::Graph& graph,
                                                         const fuse::Region& region, ir::Mode mode,
                                                         const KnownValues& known, int threads,
                                                         Panels panels, PackedWeights* shared) {
  auto made = std::make_unique<EpilogueRegion>(graph, region, mode, panels);
  ATTACCA_TRY_VOID(made->pack_known(known, shared, threads));
  return made;
}

}  // namespace attacca::run
