// GEMM, gated and pointwise regions: tiles of accumulators, each finished by the epilogue while it
// is in cache.
#include <algorithm>

#include "fuse/views.hpp"
#include "run/cpu/epilogue_runner.hpp"
#include "run/cpu/executable.hpp"
#include "run/cpu/indexed.hpp"
#include "run/cpu/products.hpp"
#include "run/cpu/reduce.hpp"
#include "run/cpu/thread_pool.hpp"
#include "run/shared/access.hpp"
#include "run/shared/extents.hpp"

namespace attacca::run {
namespace {

using epilogue::Role;
using ir::Tensor;

// Elements of a pointwise tile.
constexpr int64_t kTileElements = 32 * 1024;
// Rows of the lowest tile of products.
constexpr int64_t kLeastRows = 32;
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

struct RegionSizes : Sizes {
  std::vector<int64_t> domain;
  std::vector<std::vector<int64_t>> results;  // shapes
  std::vector<Strides> inputs, outputs;       // an accumulator's is empty
  std::vector<int64_t> group_strides;         // of inputs
  std::vector<ProductSizes> products;
  // Of inputs and outputs whose rows an index names.
  std::vector<RowSizes> input_rows, output_rows;
  std::vector<Strides> bases;  // of outputs to which rows are added
};

// The rows that the indices of a region's inputs and outputs name; empty where there is no index.
struct ChosenRows {
  std::vector<std::vector<int64_t>> inputs, outputs;
};

// A reduction of tiles while they are in cache.
struct TiledReduction {
  size_t output;
  size_t from;  // the output whose tiles hold what is reduced
  std::unique_ptr<RowReduction> rows;
  std::unique_ptr<BatchReduction> batch;
};
using TiledReductions = std::vector<TiledReduction>;

class EpilogueRegion : public Executable {
 public:
  EpilogueRegion(const ir::Graph& graph, const fuse::Region& region, ir::Mode mode, Panels panels)
      : region_(with_long_rows(region)),
        mode_(mode),
        epilogue_(region_.epilogue),
        program_(compile_chunk_program(epilogue_, mode)),
        products_(graph, region_, panels) {
    for (const epilogue::Input& input : epilogue_.inputs)
      input_indices_.push_back(label(graph, input.rows));
    for (const epilogue::Output& output : epilogue_.outputs) {
      result_shapes_.push_back(graph.type(output.result).shape);
      output_indices_.push_back(label(graph, output.rows));
      leaves_.push_back(
          std::any_of(graph.outputs().begin(), graph.outputs().end(),
                      [&](const ir::Output& each) { return each.value == output.result; }));
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
      Strides& access = sizes->inputs.emplace_back();
      RowSizes& rows = sizes->input_rows.emplace_back();
      int64_t& group_stride = sizes->group_strides.emplace_back(0);
      if (input.role == Role::Accumulator) continue;
      ATTACCA_TRY(access, evaluate_access(input.access, symbols));
      if (input.group_stride) {
        ATTACCA_TRY(const Strides groups, evaluate_access({0, {*input.group_stride}}, symbols));
        group_stride = groups.strides[0];
      }
      if (!input.rows) continue;
      ATTACCA_TRY(rows, measure_rows(*input.rows, symbols));
    }
    for (size_t i = 0; i < epilogue_.outputs.size(); ++i) {
      Strides& access = sizes->outputs.emplace_back();
      access.strides = ir::contiguous_strides(sizes->domain);
      ATTACCA_TRY_VOID(measure_added(epilogue_.outputs[i], symbols, *sizes));
      if (!is_store(i)) continue;
      ATTACCA_TRY(access, evaluate_access(epilogue_.outputs[i].access, symbols));
    }
    ATTACCA_TRY(sizes->products, products_.measure(symbols, sizes->domain));
    return sizes;
  }

  Status run(RunState& state, const Sizes* measured) const override {
    const auto& sizes = static_cast<const RegionSizes&>(*measured);
    ATTACCA_TRY(const ChosenRows rows, choose_rows(state, sizes));
    ATTACCA_TRY(std::vector<Tensor> results, make_results(state, sizes));
    ATTACCA_TRY(std::vector<Tensor> stored, make_stored(state, sizes, results));
    const BoundEpilogue bound(epilogue_, program_, sizes.domain, bind_inputs(state, sizes, rows),
                              bind_outputs(sizes, stored));
    const TiledReductions tiled = tiled_reductions(sizes, results);
    if (products_.empty())
      run_pointwise(bound, state.threads);
    else
      ATTACCA_TRY_VOID(run_gemms(bound, state, sizes, tiled, stored));
    add_rows_of(state, sizes, rows, stored, results);
    finish_reductions(state, sizes, stored, results);
    for (const TiledReduction& each : tiled)
      if (each.rows) each.rows->finish();
    for (size_t i = 0; i < results.size(); ++i)
      state.values[epilogue_.outputs[i].result.id] = std::move(results[i]);
    return {};
  }

 private:
  bool is_store(size_t output) const {
    return epilogue_.outputs[output].kind == epilogue::OutputKind::Store;
  }

  // Whether the output is reduced tile by tile; others are from the whole of what they read.
  bool is_tiled(size_t output, const RegionSizes& sizes) const {
    const epilogue::Output& out = epilogue_.outputs[output];
    if (products_.empty() || count_of(sizes.domain) == 0) return false;
    if (out.kind == epilogue::OutputKind::RowReduce) {
      const bool sums = out.reduction == ir::Op::Sum || out.reduction == ir::Op::Mean;
      return mode_ != ir::Mode::Eager || !sums ||
             block_columns(sizes.domain.back()) >= sizes.domain.back();
    }
    if (out.kind != epilogue::OutputKind::BatchReduce) return false;
    return std::all_of(out.access.strides.begin(), out.access.strides.end() - 2,
                       [](const ir::Dim& stride) { return stride.is(0); });
  }

  TiledReductions tiled_reductions(const RegionSizes& sizes, std::vector<Tensor>& results) const {
    TiledReductions tiled;
    const int64_t rows = sizes.domain[sizes.domain.size() - 2], columns = sizes.domain.back();
    for (size_t i = 0; i < results.size(); ++i) {
      if (!is_tiled(i, sizes)) continue;
      const epilogue::Output& output = epilogue_.outputs[i];
      TiledReduction& each = tiled.emplace_back(TiledReduction{i, whole_of(i, sizes), {}, {}});
      const ir::DType from = program_.stores[i].dtype;
      const int64_t matrices = count_of(sizes.domain) / (rows * columns);
      if (output.kind == epilogue::OutputKind::RowReduce)
        each.rows = std::make_unique<RowReduction>(output.reduction, from, matrices * rows, columns,
                                                   divide_up(columns, block_columns(columns)),
                                                   mode_, results[i]);
      else
        each.batch = std::make_unique<BatchReduction>(output.reduction, from, matrices, columns,
                                                      mode_, results[i]);
    }
    return tiled;
  }

  static Status measure_added(const epilogue::Output& output, const ir::SymbolValues& symbols,
                              RegionSizes& sizes) {
    RowSizes& rows = sizes.output_rows.emplace_back();
    Strides& base = sizes.bases.emplace_back();
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

  Result<std::vector<Tensor>> make_results(RunState& state, const RegionSizes& sizes) const {
    std::vector<Tensor> results;
    for (size_t i = 0; i < sizes.results.size(); ++i) {
      const epilogue::Output& output = epilogue_.outputs[i];
      if (const size_t same = is_store(i) ? whole_of(i, sizes) : i; same != i) {
        const auto whole = std::make_shared<Tensor>(results[same]);
        results.push_back(Tensor::adopt(output.dtype, sizes.results[i], {whole, whole->data()}));
        continue;
      }
      ATTACCA_TRY(Tensor result, state.result(output.result, output.dtype, sizes.results[i]));
      results.push_back(std::move(result));
    }
    return results;
  }

  // What the chunk program writes: the results, or the unrounded values that a reduction reads.
  // Reductions share these with each other and with a result that holds the same.
  Result<std::vector<Tensor>> make_stored(RunState& state, const RegionSizes& sizes,
                                          const std::vector<Tensor>& results) const {
    std::vector<Tensor> stored = results;
    for (size_t i = 0; i < results.size(); ++i) {
      if (is_store(i)) continue;
      if (is_tiled(i, sizes)) continue;
      if (const size_t same = whole_of(i, sizes); same != i) {
        stored[i] = Tensor::view(stored[same].dtype(), sizes.domain, stored[same].data());
        continue;
      }
      ATTACCA_TRY(stored[i], state.buffers.tensor(program_.stores[i].dtype, sizes.domain));
    }
    return stored;
  }

  // The output that stores the values which this reduction reads, or which this result shares with
  // an earlier one; or the output itself. Reductions share the whole of them, or their tiles.
  size_t whole_of(size_t output, const RegionSizes& sizes) const {
    if (is_store(output) && (leaves_[output] || !is_dense(output, sizes))) return output;
    for (size_t i = 0; i < program_.stores.size(); ++i) {
      if (program_.stores[i].slot != program_.stores[output].slot ||
          program_.stores[i].dtype != program_.stores[output].dtype)
        continue;
      if (is_store(output) && i >= output) break;
      if (is_store(i) && is_dense(i, sizes)) return i;
      // An earlier reduction may itself read a later result.
      if (!is_store(i) && i < output && !is_store(output) &&
          is_tiled(i, sizes) == is_tiled(output, sizes))
        return whole_of(i, sizes);
    }
    return output;
  }
  // Whether it holds the domain's elements in their order.
  static bool is_dense(size_t output, const RegionSizes& sizes) {
    const Strides& access = sizes.outputs[output];
    const std::vector<int64_t> dense = ir::contiguous_strides(sizes.domain);
    bool same = access.offset == 0;
    for (size_t axis = 0; axis < dense.size(); ++axis)
      same &= sizes.domain[axis] == 1 || access.strides[axis] == dense[axis];
    return same;
  }

  std::vector<BoundAccess> bind_inputs(RunState& state, const RegionSizes& sizes,
                                       const ChosenRows& rows) const {
    std::vector<BoundAccess> bound;
    for (size_t i = 0; i < sizes.inputs.size(); ++i) {
      const epilogue::Input& input = epilogue_.inputs[i];
      const Strides& access = sizes.inputs[i];
      std::byte* data =
          input.role == Role::Accumulator
              ? nullptr
              : state.values[input.source.id].data() + access.offset * ir::size_of(input.dtype);
      bound.push_back({data, access.strides, input.rows ? rows.inputs[i].data() : nullptr,
                       sizes.group_strides[i]});
    }
    return bound;
  }

  std::vector<BoundAccess> bind_outputs(const RegionSizes& sizes,
                                        std::vector<Tensor>& stored) const {
    std::vector<BoundAccess> bound;
    for (size_t i = 0; i < stored.size(); ++i) {
      const Strides& access = sizes.outputs[i];
      if (is_tiled(i, sizes) || whole_of(i, sizes) != i) {
        bound.push_back({nullptr, access.strides, nullptr});
        continue;
      }
      bound.push_back({stored[i].data() + access.offset * ir::size_of(stored[i].dtype()),
                       access.strides, nullptr});
    }
    return bound;
  }

  void add_rows_of(RunState& state, const RegionSizes& sizes, const ChosenRows& rows,
                   const std::vector<Tensor>& stored, std::vector<Tensor>& results) const {
    for (size_t i = 0; i < results.size(); ++i) {
      const epilogue::Output& output = epilogue_.outputs[i];
      if (!output.rows) continue;
      const Strides& access = sizes.bases[i];
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
      if (is_store(i) || epilogue_.outputs[i].rows || is_tiled(i, sizes)) continue;
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

  // What the tiles of a run share.
  struct Work {
    const BoundEpilogue& bound;
    const std::vector<PreparedProduct>& prepared;
    const TiledReductions& tiled;
    const std::vector<Tensor>& stored;
  };

  Status run_gemms(const BoundEpilogue& bound, RunState& state, const RegionSizes& sizes,
                   const TiledReductions& tiled, const std::vector<Tensor>& stored) const {
    const std::vector<int64_t>& domain = sizes.domain;
    const std::optional<Groups> groups = products_.groups(state, sizes.products);
    ATTACCA_TRY(const std::vector<PreparedProduct> prepared,
                products_.prepare(state, sizes.products, groups));
    const int64_t rows = domain[domain.size() - 2], columns = domain.back();
    if (count_of(domain) == 0) return {};
    const int64_t wide = block_columns(columns);
    const int64_t across = divide_up(columns, wide);
    const int threads = worth(state.threads, multiplications(domain, prepared), kWorthMultiplying);
    const Work work{bound, prepared, tiled, stored};
    if (groups && groups->ends.empty() && reads_by_group(epilogue_))
      return fail("gather index 0 is outside an axis of 0", "a product of no groups",
                  "use indices inside the axis");
    if (groups) {
      run_groups(work, *groups, threads);
      return {};
    }
    const auto is_of_batch = [](const TiledReduction& each) { return each.batch != nullptr; };
    const bool by_batch = std::any_of(tiled.begin(), tiled.end(), is_of_batch);
    const int64_t batches = by_batch ? 1 : bound.batches();
    const int64_t tall = tile_rows(rows, batches * across, threads);
    const int64_t down = divide_up(rows, tall);
    ThreadPool::shared().run(threads, batches * across * down, [&](int64_t task) {
      const int64_t row0 = task % down * tall, block = task / down % across;
      const Tile tile{task / down / across, row0, std::min(rows, row0 + tall), block * wide,
                      std::min(columns, (block + 1) * wide)};
      by_batch ? run_matrices(work, tile, block)
               : run_tile(work, tile, block, Groups::kNone, nullptr);
    });
    return {};
  }

  // The same tile of all matrices, one after the other.
  void run_matrices(const Work& work, Tile tile, int64_t block) const {
    const int64_t rows = tile.row1 - tile.row0, columns = tile.column1 - tile.column0;
    thread_local std::vector<BatchReduction::Totals> totals;
    totals.resize(std::max(totals.size(), work.tiled.size()));
    for (size_t i = 0; i < work.tiled.size(); ++i)
      if (work.tiled[i].batch) work.tiled[i].batch->start(rows, columns, totals[i]);
    for (tile.batch = 0; tile.batch < work.bound.batches(); ++tile.batch)
      run_tile(work, tile, block, Groups::kNone, totals.data());
    for (size_t i = 0; i < work.tiled.size(); ++i)
      if (work.tiled[i].batch)
        work.tiled[i].batch->finish(tile.row0, rows, tile.column0, columns, totals[i]);
  }

  // Rows of one tile, all of one group or of none.
  struct Strip {
    int64_t group, row0, row1;
  };

  static std::vector<Strip> strips_of(const Groups& groups, int64_t rows, int64_t across,
                                      int threads) {
    std::vector<Strip> strips;
    const auto cut = [&](int64_t group, int64_t begin, int64_t end) {
      if (begin == end) return;
      const int64_t share = divide_up((end - begin) * threads, rows);
      const int64_t tall = tile_rows(end - begin, across, static_cast<int>(share));
      for (int64_t row = begin; row < end; row += tall)
        strips.push_back({group, row, std::min(end, row + tall)});
    };
    for (size_t group = 0; group < groups.ends.size(); ++group)
      cut(static_cast<int64_t>(group), groups.begin(group), groups.ends[group]);
    cut(Groups::kNone, groups.ends.empty() ? 0 : groups.ends.back(), rows);
    return strips;
  }

  void run_groups(const Work& work, const Groups& groups, int threads) const {
    const BoundEpilogue& bound = work.bound;
    const int64_t columns = bound.domain().back(), wide = block_columns(columns);
    const int64_t across = divide_up(columns, wide);
    const std::vector<Strip> strips = strips_of(groups, bound.domain()[0], across, threads);
    const auto down = static_cast<int64_t>(strips.size());
    const auto last = static_cast<int64_t>(groups.ends.size()) - 1;
    // A group's tiles with the same columns follow each other: its weights are in cache.
    ThreadPool::shared().run(threads, down * across, [&](int64_t task) {
      const Strip& strip = strips[static_cast<size_t>(task % down)];
      const int64_t block = task / down;
      const Tile tile{0,
                      strip.row0,
                      strip.row1,
                      block * wide,
                      std::min(columns, (block + 1) * wide),
                      strip.group == Groups::kNone ? last : strip.group};
      run_tile(work, tile, block, strip.group, nullptr);
    });
  }

  static int64_t multiplications(const std::vector<int64_t>& domain,
                                 const std::vector<PreparedProduct>& prepared) {
    int64_t count = 0;
    for (const PreparedProduct& each : prepared) count += count_of(domain) * each.a.columns;
    return count;
  }

  // Whether at most a sixteenth of the threads' time passes without a tile.
  static bool keeps_busy(int64_t tiles, int threads) {
    const int64_t slots = divide_up(tiles, threads) * threads;
    return (slots - tiles) * 16 <= slots;
  }

  // Tiles of about equal rows, lower where there are too few for the threads, or one too many.
  // `others`: tiles side by side.
  static int64_t tile_rows(int64_t rows, int64_t others, int threads) {
    constexpr int64_t kEven = 4;
    int64_t down = divide_up(rows, kTileRows);
    if (threads > 1) down = std::max(down, divide_up(2 * threads, others));
    const int64_t most = std::max(down, rows / kLeastRows);
    while (down < most && !keeps_busy(down * others, threads)) ++down;
    const int64_t tall = divide_up(divide_up(rows, down), kEven) * kEven;
    return std::clamp(tall, kLeastRows, kTileRows);
  }

  // `totals`: of the reductions of the batch.
  void run_tile(const Work& work, const Tile& tile, int64_t block, int64_t group,
                BatchReduction::Totals* totals) const {
    thread_local ChunkScratch scratch;
    thread_local std::vector<AlignedBuffer> buffers;
    const std::vector<PreparedProduct>& prepared = work.prepared;
    if (buffers.size() < prepared.size()) buffers.resize(prepared.size());
    const int64_t rows = tile.row1 - tile.row0, columns = tile.column1 - tile.column0;
    std::vector<AccumulatorTile> accumulators;
    for (size_t i = 0; i < prepared.size(); ++i) {
      std::byte* out = buffers[i].reserve(static_cast<size_t>(rows * columns) * sizeof(double));
      prepared[i].multiply(tile, block, group, work.bound.domain(), out);
      accumulators.push_back({out, columns});
    }
    if (work.tiled.empty()) return work.bound.run(tile, accumulators, scratch);
    const std::vector<std::byte*> kept = keep_tiles(work, rows * columns);
    work.bound.run(tile, accumulators, scratch, kept);
    for (size_t i = 0; i < work.tiled.size(); ++i)
      reduce_tile(work, work.tiled[i], tile, block, kept, totals ? &totals[i] : nullptr);
  }

  // Room for the tiles that no result holds.
  std::vector<std::byte*> keep_tiles(const Work& work, int64_t elements) const {
    thread_local std::vector<AlignedBuffer> tiles;
    tiles.resize(std::max(tiles.size(), work.tiled.size()));
    std::vector<std::byte*> kept(epilogue_.outputs.size(), nullptr);
    for (size_t i = 0; i < work.tiled.size(); ++i)
      if (work.tiled[i].from == work.tiled[i].output)
        kept[work.tiled[i].output] =
            tiles[i].reserve(static_cast<size_t>(elements) * sizeof(double));
    return kept;
  }

  void reduce_tile(const Work& work, const TiledReduction& reduction, const Tile& tile,
                   int64_t block, const std::vector<std::byte*>& kept,
                   BatchReduction::Totals* totals) const {
    const std::vector<int64_t>& domain = work.bound.domain();
    const int64_t row0 = tile.batch * domain[domain.size() - 2] + tile.row0;
    ReducedTile from{kept[reduction.from], tile.column1 - tile.column0, row0, tile.row1 - tile.row0,
                     tile.column1 - tile.column0};
    if (!from.values) {
      const Tensor& whole = work.stored[reduction.from];
      from.row_stride = domain.back();
      from.values =
          whole.data() + (row0 * domain.back() + tile.column0) * ir::size_of(whole.dtype());
    }
    if (reduction.rows)
      reduction.rows->add(from, block);
    else
      reduction.batch->add(from, *totals);
  }

  const fuse::Region region_;
  const ir::Mode mode_;
  const epilogue::Epilogue& epilogue_;
  const ChunkProgram program_;
  std::vector<ir::Shape> result_shapes_;
  std::vector<std::string> input_indices_, output_indices_;  // names, where an index is read
  std::vector<bool> leaves_;  // of each output: whether it is the graph's
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
