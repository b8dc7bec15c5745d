// GEMM, gated and pointwise regions: tiles of accumulators, each finished by the epilogue while it
// is in cache.
#include <algorithm>
#include <cstring>

#include "run/epilogue_runner.hpp"
#include "run/executable.hpp"
#include "run/gemm.hpp"
#include "run/reduce.hpp"
#include "run/thread_pool.hpp"
#include "support/check.hpp"

namespace attacca::run {
namespace {

using epilogue::Role;
using ir::SymbolValues;
using ir::Tensor;

// Rows of a GEMM tile, and elements of a pointwise one.
constexpr int64_t kTileRows = 128;
constexpr int64_t kTileElements = 32 * 1024;

int64_t divide_up(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

int64_t product(const std::vector<int64_t>& extents) {
  int64_t count = 1;
  for (const int64_t extent : extents) count *= extent;
  return count;
}

// Packed B of every matrix of a batch; one along an axis where B does not change.
struct PackedBatch {
  std::vector<int64_t> extents;  // of the batch, 1 along those axes
  std::vector<PackedMatrix> matrices;

  const PackedMatrix& of(int64_t batch, const std::vector<int64_t>& domain) const {
    int64_t index = 0, stride = 1;
    for (size_t axis = extents.size(); axis-- > 0;) {
      if (extents[axis] != 1) index += batch % domain[axis] * stride;
      batch /= domain[axis];
      stride *= extents[axis];
    }
    return matrices[index];
  }
};

// A matrix operand with its numbers: a batch of views.
struct Operand {
  const std::byte* base = nullptr;
  ir::DType dtype = ir::DType::F32;
  std::vector<int64_t> batch, batch_strides;
  int64_t rows = 0, columns = 0, row_stride = 0, column_stride = 0;

  bool is_shared() const {
    for (size_t axis = 0; axis < batch.size(); ++axis)
      if (batch[axis] != 1 && batch_strides[axis] != 0) return false;
    return true;
  }
  MatrixView at(int64_t index) const {
    int64_t offset = 0;
    for (size_t axis = batch.size(); axis-- > 0;) {
      offset += index % batch[axis] * batch_strides[axis];
      index /= batch[axis];
    }
    return {base + offset * ir::size_of(dtype), dtype, rows, columns, row_stride, column_stride};
  }
};

// One accumulator input: a set of columns of one GEMM, itself a GEMM with those columns of B.
struct Product {
  const fuse::Gemm* gemm = nullptr;
  ir::Dim column_offset;
  int64_t column_step = 1;
  GemmKind kind = GemmKind::F32;
  std::shared_ptr<const PackedBatch> packed;  // where B is known
};

class EpilogueRegion : public Executable {
 public:
  EpilogueRegion(const ir::Graph& graph, const fuse::Region& region, ir::Mode mode)
      : region_(region),
        epilogue_(region_.epilogue),
        program_(compile_chunk_program(epilogue_, mode)) {
    for (const epilogue::Output& output : epilogue_.outputs)
      result_shapes_.push_back(graph.type(output.result).shape);
    for (const epilogue::Input& input : epilogue_.inputs) {
      if (input.role != Role::Accumulator) continue;
      const fuse::Gemm& gemm = region_.gemms[input.gemm];
      products_.push_back({&gemm, input.column_offset, input.column_step,
                           choose_gemm(gemm.a.dtype, gemm.b.dtype, gemm.accumulator), nullptr});
    }
  }

  // Packs every B that is known and whose extents no symbol decides.
  Status pack_known(const KnownValues& known, int threads) {
    for (Product& product : products_) {
      const fuse::GemmOperand& from = product.gemm->b;
      const Tensor& b = known[from.source.id];
      const auto columns = epilogue_.domain.back().maybe_value();
      if (b.data() == nullptr || !columns || !product.gemm->k.is_static()) continue;
      std::vector<int64_t> batch;
      for (size_t axis = 0; axis < product.gemm->batch.size(); ++axis)
        batch.push_back(from.access.strides[axis].is(0)
                            ? 1
                            : product.gemm->batch[axis].maybe_value().value_or(-1));
      if (std::count(batch.begin(), batch.end(), -1)) continue;
      ATTACCA_TRY(const Operand operand, b_operand(product, b, std::move(batch), *columns, {}));
      product.packed = pack(product, operand, threads);
    }
    return {};
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

  // Everything one run's tiles read.
  struct Prepared {
    const Product* product = nullptr;
    Operand a;                             // dense rows of the type multiplied
    std::shared_ptr<AlignedBuffer> own_a;  // where they were copied
    std::shared_ptr<const PackedBatch> b;
    Tensor* collect = nullptr;  // the GEMM's accumulators, wanted whole
    int64_t column_offset = 0;
  };

  Status run_gemms(const BoundEpilogue& bound, RunState& state,
                   const std::vector<int64_t>& domain) const {
    std::vector<Prepared> prepared;
    for (const Product& product : products_) {
      ATTACCA_TRY(Prepared each, prepare(product, state, domain, prepared));
      prepared.push_back(std::move(each));
    }
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

  void run_tile(const BoundEpilogue& bound, const std::vector<Prepared>& prepared, const Tile& tile,
                int64_t block) const {
    thread_local ChunkScratch scratch;
    thread_local std::vector<AlignedBuffer> buffers;
    if (buffers.size() < prepared.size()) buffers.resize(prepared.size());
    const int64_t rows = tile.row1 - tile.row0, columns = tile.column1 - tile.column0;
    std::vector<AccumulatorTile> accumulators;
    for (size_t i = 0; i < prepared.size(); ++i) {
      const Prepared& each = prepared[i];
      std::byte* out = buffers[i].reserve(static_cast<size_t>(rows * columns) * sizeof(double));
      const MatrixView a = each.a.at(tile.batch);
      each.b->of(tile.batch, bound.domain()).multiply(a.at(tile.row0, 0), rows, block, out);
      if (each.collect) collect(each, tile, out);
      accumulators.push_back({out, columns});
    }
    bound.run(tile, accumulators, scratch);
  }

  static void collect(const Prepared& each, const Tile& tile, const std::byte* from) {
    Tensor& all = *each.collect;
    const size_t rank = all.shape().size();
    const int64_t width = ir::size_of(all.dtype()), n = all.shape()[rank - 1];
    const int64_t first = tile.batch * all.shape()[rank - 2];
    for (int64_t row = tile.row0; row < tile.row1; ++row)
      for (int64_t column = tile.column0; column < tile.column1; ++column, from += width) {
        const int64_t at =
            (first + row) * n + column * each.product->column_step + each.column_offset;
        std::memcpy(all.data() + at * width, from, width);
      }
  }

  Result<Prepared> prepare(const Product& product, RunState& state,
                           const std::vector<int64_t>& domain,
                           const std::vector<Prepared>& before) const {
    Prepared result;
    result.product = &product;
    const auto sibling = std::find_if(before.begin(), before.end(), [&](const Prepared& other) {
      const fuse::GemmOperand &a = other.product->gemm->a, &b = product.gemm->a;
      return other.product->kind == product.kind && a.source == b.source && a.access == b.access;
    });
    if (sibling != before.end()) {
      result.a = sibling->a;
      result.own_a = sibling->own_a;
    } else {
      ATTACCA_TRY_VOID(prepare_a(product, state, result));
    }
    result.b = product.packed;
    if (!result.b) {
      const Tensor& b = state.values[product.gemm->b.source.id];
      const std::vector<int64_t> batch(domain.begin(), domain.end() - 2);
      ATTACCA_TRY(const Operand operand,
                  b_operand(product, b, batch, domain.back(), state.symbols));
      result.b = pack(product, operand, state.threads);
    }
    ATTACCA_TRY(result.column_offset, product.column_offset.evaluate(state.symbols));
    if (state.accumulators) {
      ATTACCA_TRY(result.collect, accumulators_of(*product.gemm, state));
    }
    return result;
  }

  // The whole product's accumulators, zero where no epilogue reads them.
  static Result<Tensor*> accumulators_of(const fuse::Gemm& gemm, RunState& state) {
    const auto found = state.accumulators->find(gemm.node);
    if (found != state.accumulators->end()) return &found->second;
    ATTACCA_TRY(std::vector<int64_t> shape, evaluate(gemm.batch, state.symbols));
    for (const ir::Dim* dim : {&gemm.m, &gemm.n}) {
      ATTACCA_TRY(const int64_t extent, dim->evaluate(state.symbols));
      shape.push_back(extent);
    }
    ATTACCA_TRY(Tensor all, Tensor::make(gemm.accumulator, std::move(shape)));
    return &((*state.accumulators)[gemm.node] = std::move(all));
  }

  static Result<Operand> operand_of(const fuse::GemmOperand& from, const Tensor& tensor,
                                    std::vector<int64_t> batch, const SymbolValues& symbols) {
    ATTACCA_TRY(const Strides access, evaluate_access(from.access, symbols));
    Operand operand;
    operand.batch = std::move(batch);
    operand.base = tensor.data() + access.offset * ir::size_of(from.dtype);
    operand.dtype = from.dtype;
    const size_t rank = access.strides.size();
    operand.batch_strides.assign(access.strides.begin(), access.strides.end() - 2);
    operand.row_stride = access.strides[rank - 2];
    operand.column_stride = access.strides[rank - 1];
    return operand;
  }

  // The columns of B that the domain's columns read.
  static Result<Operand> b_operand(const Product& product, const Tensor& b,
                                   std::vector<int64_t> batch, int64_t columns,
                                   const SymbolValues& symbols) {
    const fuse::Gemm& gemm = *product.gemm;
    ATTACCA_TRY(Operand operand, operand_of(gemm.b, b, std::move(batch), symbols));
    ATTACCA_TRY(const int64_t offset, product.column_offset.evaluate(symbols));
    ATTACCA_TRY(operand.rows, gemm.k.evaluate(symbols));
    operand.columns = columns;
    operand.base += offset * operand.column_stride * ir::size_of(operand.dtype);
    operand.column_stride *= product.column_step;
    return operand;
  }

  static std::shared_ptr<const PackedBatch> pack(const Product& product, const Operand& b,
                                                 int threads) {
    auto packed = std::make_shared<PackedBatch>();
    Operand distinct = b;
    for (size_t axis = 0; axis < b.batch.size(); ++axis)
      if (b.batch_strides[axis] == 0) distinct.batch[axis] = 1;
    packed->extents = distinct.batch;
    const int64_t count = run::product(distinct.batch);
    for (int64_t i = 0; i < count; ++i)
      packed->matrices.emplace_back(product.kind, b.rows, b.columns);
    if (count == 0) return packed;
    const int64_t blocks = packed->matrices[0].blocks();
    ThreadPool::shared().run(threads, count * blocks, [&](int64_t task) {
      packed->matrices[task / blocks].pack_block(distinct.at(task / blocks), task % blocks);
    });
    return packed;
  }

  // A as dense rows of the multiplied type, copied unless it is that already.
  static Status prepare_a(const Product& product, const RunState& state, Prepared& result) {
    const fuse::Gemm& gemm = *product.gemm;
    const Tensor& tensor = state.values[gemm.a.source.id];
    ATTACCA_TRY(std::vector<int64_t> batch, evaluate(gemm.batch, state.symbols));
    ATTACCA_TRY(result.a, operand_of(gemm.a, tensor, std::move(batch), state.symbols));
    Operand& a = result.a;
    ATTACCA_TRY(a.rows, gemm.m.evaluate(state.symbols));
    ATTACCA_TRY(a.columns, gemm.k.evaluate(state.symbols));
    const ir::DType wanted = a_dtype(product.kind);
    const bool dense = a.dtype == wanted && (a.column_stride == 1 || a.columns <= 1) &&
                       (a.row_stride == a.columns || a.rows <= 1);
    const int64_t count =
        a.is_shared() ? std::min<int64_t>(1, run::product(a.batch)) : run::product(a.batch);
    if (dense || count * a.rows * a.columns == 0) return {};
    const int64_t width = ir::size_of(wanted), matrix = a.rows * a.columns;
    result.own_a = std::make_shared<AlignedBuffer>();
    std::byte* to = result.own_a->reserve(static_cast<size_t>(count * matrix * width));
    const int64_t panels = divide_up(a.rows, kTileRows);
    ThreadPool::shared().run(state.threads, count * panels, [&](int64_t task) {
      const int64_t row0 = task % panels * kTileRows, row1 = std::min(a.rows, row0 + kTileRows);
      const MatrixView panel = a.at(task / panels).part(row0, row1, 0, a.columns);
      copy_dense(panel, wanted, to + (task / panels * matrix + row0 * a.columns) * width);
    });
    const bool shared = a.is_shared();
    a.base = to;
    a.dtype = wanted;
    a.row_stride = a.columns;
    a.column_stride = 1;
    int64_t stride = matrix;
    for (size_t axis = a.batch.size(); axis-- > 0;) {
      a.batch_strides[axis] = shared ? 0 : stride;
      stride *= a.batch[axis];
    }
    return {};
  }

  const fuse::Region region_;
  const epilogue::Epilogue& epilogue_;
  const ChunkProgram program_;
  std::vector<ir::Shape> result_shapes_;
  std::vector<Product> products_;
};

}  // namespace

Result<Strides> evaluate_access(const epilogue::Access& access, const SymbolValues& symbols) {
  Strides result;
  const auto number = [&](const ir::Dim& dim) -> Result<int64_t> {
    if (const auto value = dim.maybe_value()) return *value;
    const auto positive = dim.evaluate(symbols);
    if (positive) return positive;
    // A step backwards along a symbolic axis.
    const auto negative = (ir::Dim(0) - dim).evaluate(symbols);
    if (negative) return -*negative;
    return positive;
  };
  ATTACCA_TRY(result.offset, number(access.offset));
  for (const ir::Dim& dim : access.strides) {
    ATTACCA_TRY(const int64_t stride, number(dim));
    result.strides.push_back(stride);
  }
  return result;
}

Result<std::unique_ptr<Executable>> make_epilogue_region(const ir::Graph& graph,
                                                         const fuse::Region& region, ir::Mode mode,
                                                         const KnownValues& known, int threads) {
  auto made = std::make_unique<EpilogueRegion>(graph, region, mode);
  ATTACCA_TRY_VOID(made->pack_known(known, threads));
  return made;
}

}  // namespace attacca::run
