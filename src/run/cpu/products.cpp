#include "run/cpu/products.hpp"

#include <algorithm>
#include <cstring>

#include "ir/interpret/codes.hpp"
#include "ir/interpret/groups.hpp"
#include "run/cpu/thread_pool.hpp"

namespace attacca::run {
namespace {

using ir::SymbolValues;
using ir::Tensor;

int64_t product_of(const std::vector<int64_t>& extents) {
  int64_t count = 1;
  for (const int64_t extent : extents) count *= extent;
  return count;
}

// The accumulators of the whole product, zero where no epilogue reads them.
Result<Tensor*> accumulators_of(const fuse::Gemm& gemm, RunState& state) {
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

// A product with at most so many multiplications is small.
constexpr int64_t kSmall = 16 * 1024;

// Elements whose packing is worth another thread.
constexpr int64_t kWorthPacking = 8 * 1024;

// An operand without its address. `offset`: to the first element, in bytes.
Result<Operand> operand_of(const fuse::GemmOperand& from, std::vector<int64_t> batch,
                           const SymbolValues& symbols, int64_t& offset) {
  ATTACCA_TRY(const ConcreteAccess access, evaluate_access(from.access, symbols));
  Operand operand;
  operand.batch = std::move(batch);
  operand.dtype = from.dtype;
  offset = access.offset * ir::size_of(from.dtype);
  const size_t rank = access.strides.size();
  operand.batch_strides.assign(access.strides.begin(), access.strides.end() - 2);
  operand.row_stride = access.strides[rank - 2];
  operand.column_stride = access.strides[rank - 1];
  return operand;
}

// The columns of B that the domain's columns read.
Result<Operand> b_operand(const Product& product, std::vector<int64_t> batch, int64_t columns,
                          const SymbolValues& symbols, int64_t& offset) {
  const fuse::Gemm& gemm = *product.gemm;
  ATTACCA_TRY(Operand operand, operand_of(gemm.b, std::move(batch), symbols, offset));
  ATTACCA_TRY(const int64_t first, product.column_offset.evaluate(symbols));
  ATTACCA_TRY(operand.rows, gemm.k.evaluate(symbols));
  operand.columns = columns;
  offset += first * operand.column_stride * ir::size_of(operand.dtype);
  operand.column_stride *= product.column_step;
  return operand;
}

Operand at(Operand operand, const Tensor& tensor, int64_t offset) {
  operand.base = tensor.data() + offset;
  return operand;
}

// The extents along which B has matrices.
ir::Shape b_batch(const fuse::Gemm& gemm) {
  return gemm.groups ? ir::Shape{gemm.groups->count} : gemm.batch;
}

// Whether matrix `index` of B is multiplied by rows; `alone`: B has no other.
bool is_read(const std::optional<Groups>& groups, int64_t index, bool alone) {
  if (!groups || alone) return true;
  const auto group = static_cast<size_t>(index);
  return groups->ends[group] > groups->begin(group);
}

// The memory of B: of weights in codes, these, their scales and zero points.
struct Weights {
  Tensor data, scales, zeros;
  std::optional<ir::CodeFormat> format = {};

  bool known() const {
    if (!format) return data.data() != nullptr;
    return data.data() != nullptr && scales.data() != nullptr &&
           (!format->zeros || zeros.data() != nullptr);
  }
  ir::CodeMemory memory() const { return {data.data(), scales.data(), zeros.data()}; }
};

// Packs weights in codes: each matrix of B is widened first.
void pack_widened(PackedBatch& packed, const Operand& b, int64_t offset, const Weights& weights,
                  int threads, const std::optional<Groups>& groups) {
  const auto count = static_cast<int64_t>(packed.matrices.size());
  const ir::CodeFormat& format = *weights.format;
  const int64_t each = weights.scales.size() * format.block / std::max<int64_t>(count, 1);
  ThreadPool::shared().run(worth(threads, count * each, kWorthPacking), count, [&](int64_t i) {
    if (!is_read(groups, i, count == 1)) return;
    thread_local AlignedBuffer buffer;
    std::byte* wide = buffer.reserve(static_cast<size_t>(each * ir::size_of(b.dtype)));
    widen_codes(format, weights.memory().from(format, i * each), each, wide);
    PackedMatrix& matrix = packed.matrices[static_cast<size_t>(i)];
    const MatrixView view{wide + offset, b.dtype, b.rows, b.columns, b.row_stride, b.column_stride};
    for (int64_t block = 0; block < matrix.blocks(); ++block) matrix.pack_block(view, block);
  });
}

// `offset`: of B's first element in its memory.
std::shared_ptr<const PackedBatch> pack(const Product& product, const Operand& b, int64_t offset,
                                        const Weights& weights, int threads,
                                        const std::optional<Groups>& groups = {}) {
  auto packed = std::make_shared<PackedBatch>();
  Operand distinct = b;
  for (size_t axis = 0; axis < b.batch.size(); ++axis)
    if (b.batch_strides[axis] == 0) distinct.batch[axis] = 1;
  packed->extents = distinct.batch;
  const int64_t count = product_of(distinct.batch);
  for (int64_t i = 0; i < count; ++i)
    packed->matrices.emplace_back(product.kind, b.rows, b.columns);
  if (count == 0) return packed;
  if (weights.format) {
    pack_widened(*packed, b, offset, weights, threads, groups);
    return packed;
  }
  distinct = at(std::move(distinct), weights.data, offset);
  const int64_t blocks = packed->matrices[0].blocks();
  const int wanted = worth(threads, count * b.rows * b.columns, kWorthPacking);
  ThreadPool::shared().run(wanted, count * blocks, [&](int64_t task) {
    if (!is_read(groups, task / blocks, count == 1)) return;
    packed->matrices[task / blocks].pack_block(distinct.at(task / blocks), task % blocks);
  });
  return packed;
}

// A as dense rows of the multiplied type; copied unless it has that form.
Status copy_a(const Product& product, const RunState& state, PreparedProduct& result) {
  if (result.rows) return {};  // tile by tile
  Operand& a = result.a;
  const ir::DType wanted = a_dtype(product.kind);
  const bool dense = a.dtype == wanted && (a.column_stride == 1 || a.columns <= 1) &&
                     (a.row_stride == a.columns || a.rows <= 1);
  const int64_t count =
      a.is_shared() ? std::min<int64_t>(1, product_of(a.batch)) : product_of(a.batch);
  if (dense || count * a.rows * a.columns == 0) return {};
  const int64_t width = ir::size_of(wanted), matrix = a.rows * a.columns;
  ATTACCA_TRY(result.own_a, state.buffers.tensor(wanted, {count, matrix}));
  std::byte* to = result.own_a.data();
  const int64_t panels = (a.rows + kTileRows - 1) / kTileRows;
  const int threads = worth(state.threads, count * matrix, kWorthPacking);
  ThreadPool::shared().run(threads, count * panels, [&](int64_t task) {
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

Weights weights_of(const fuse::Gemm& gemm, const std::vector<Tensor>& values) {
  Weights weights{values[gemm.b.source.id], {}, {}};
  if (!gemm.b.codes) return weights;
  weights.format = gemm.b.codes->format;
  weights.scales = values[gemm.b.codes->scales.id];
  if (gemm.b.codes->zeros) weights.zeros = values[gemm.b.codes->zeros->id];
  return weights;
}

// The rows of A that an index names.
Status choose_rows(const Product& product, const ProductSizes& sizes, const RunState& state,
                   PreparedProduct& result) {
  const auto& rows = product.gemm->a.rows;
  if (!rows) return {};
  ATTACCA_TRY(std::vector<int64_t> chosen, rows_of(state.values[rows->source.id], sizes.rows,
                                                   sizes.a.rows, ir::Op::Gather, product.index));
  result.rows = std::make_shared<const std::vector<int64_t>>(std::move(chosen));
  return {};
}

Result<PreparedProduct> prepare_one(const Product& product, const ProductSizes& sizes,
                                    RunState& state, const std::optional<Groups>& groups,
                                    const std::vector<PreparedProduct>& before) {
  PreparedProduct result;
  result.product = &product;
  result.sizes = &sizes;
  const Weights weights = weights_of(*product.gemm, state.values);
  ATTACCA_TRY_VOID(choose_rows(product, sizes, state, result));
  if (sizes.small) {
    result.a = at(sizes.a, state.values[product.gemm->a.source.id], sizes.a_offset);
    result.b = at(sizes.b, weights.data, sizes.b_offset);
  } else {
    const auto sibling =
        std::find_if(before.begin(), before.end(), [&](const PreparedProduct& other) {
          const fuse::GemmOperand &a = other.product->gemm->a, &mine = product.gemm->a;
          return !other.sizes->small && other.product->kind == product.kind &&
                 a.source == mine.source && a.access == mine.access && a.rows == mine.rows;
        });
    if (sibling != before.end()) {
      result.a = sibling->a;
      result.own_a = sibling->own_a;
    } else {
      result.a = at(sizes.a, state.values[product.gemm->a.source.id], sizes.a_offset);
      ATTACCA_TRY_VOID(copy_a(product, state, result));
    }
    result.packed = product.packed;
    if (!result.packed)
      result.packed = pack(product, sizes.b, sizes.b_offset, weights, state.threads, groups);
  }
  if (state.accumulators) {
    ATTACCA_TRY(result.collected, accumulators_of(*product.gemm, state));
  }
  return result;
}

void collect(const PreparedProduct& each, const Tile& tile, const std::byte* from) {
  Tensor& all = *each.collected;
  const size_t rank = all.shape().size();
  const int64_t width = ir::size_of(all.dtype()), n = all.shape()[rank - 1];
  const int64_t first = tile.batch * all.shape()[rank - 2];
  for (int64_t row = tile.row0; row < tile.row1; ++row)
    for (int64_t column = tile.column0; column < tile.column1; ++column, from += width) {
      const int64_t at =
          (first + row) * n + column * each.product->column_step + each.sizes->column_offset;
      std::memcpy(all.data() + at * width, from, width);
    }
}

}  // namespace

Products::Products(const ir::Graph& graph, const fuse::Region& region, Panels panels)
    : domain_(region.epilogue.domain) {
  for (const epilogue::Input& input : region.epilogue.inputs) {
    if (input.role != epilogue::Role::Accumulator) continue;
    const fuse::Gemm& gemm = region.gemms[input.gemm];
    products_.push_back({&gemm, input.column_offset, input.column_step,
                         choose_gemm(gemm.a.dtype, gemm.b.dtype, gemm.accumulator), panels, nullptr,
                         gemm.a.rows ? epilogue::display_name(graph, gemm.a.rows->source) : ""});
  }
}

struct PackedWeights::Entry {
  PackedRequest request;
  Tensor source;  // the request points into it
  std::shared_ptr<const PackedBatch> packed;
};

PackedWeights::PackedWeights() = default;
PackedWeights::~PackedWeights() = default;

std::shared_ptr<const PackedBatch> PackedWeights::find(const PackedRequest& request) const {
  const std::lock_guard lock(mutex_);
  for (const Entry& entry : entries_)
    if (entry.request == request) return entry.packed;
  return nullptr;
}

size_t PackedWeights::size() const {
  const std::lock_guard lock(mutex_);
  return entries_.size();
}

void PackedWeights::add(const PackedRequest& request, Tensor source,
                        std::shared_ptr<const PackedBatch> packed) {
  const std::lock_guard lock(mutex_);
  entries_.push_back({request, std::move(source), std::move(packed)});
}

Status Products::pack_known(const KnownValues& known, PackedWeights* shared, int threads) {
  for (Product& product : products_) {
    const fuse::GemmOperand& from = product.gemm->b;
    const Weights weights = weights_of(*product.gemm, known);
    const Tensor& b = weights.data;
    const bool widens = from.codes.has_value();
    const auto columns = domain_.back().maybe_value();
    if (!weights.known() || !columns || !product.gemm->k.is_static()) continue;
    std::vector<int64_t> batch;
    const ir::Shape matrices = b_batch(*product.gemm);
    for (size_t axis = 0; axis < matrices.size(); ++axis)
      batch.push_back(from.access.strides[axis].is(0) ? 1
                                                      : matrices[axis].maybe_value().value_or(-1));
    if (std::count(batch.begin(), batch.end(), -1)) continue;
    int64_t offset = 0;
    ATTACCA_TRY(Operand operand, b_operand(product, std::move(batch), *columns, {}, offset));
    const PackedRequest request{product.kind, at(operand, b, offset)};
    const bool shares = shared != nullptr && !widens;
    if (shares) product.packed = shared->find(request);
    if (product.packed) continue;
    product.packed = pack(product, operand, offset, weights, threads);
    if (shares) shared->add(request, b, product.packed);
  }
  return {};
}

Result<std::vector<ProductSizes>> Products::measure(const SymbolValues& symbols,
                                                    const std::vector<int64_t>& domain) const {
  std::vector<ProductSizes> all;
  for (const Product& product : products_) {
    const fuse::Gemm& gemm = *product.gemm;
    ProductSizes sizes;
    ATTACCA_TRY(std::vector<int64_t> batch_of_a, evaluate(gemm.batch, symbols));
    ATTACCA_TRY(sizes.a, operand_of(gemm.a, std::move(batch_of_a), symbols, sizes.a_offset));
    ATTACCA_TRY(sizes.a.rows, gemm.m.evaluate(symbols));
    ATTACCA_TRY(sizes.a.columns, gemm.k.evaluate(symbols));
    std::vector<int64_t> batch(domain.begin(), domain.end() - 2);
    if (gemm.groups) {
      ATTACCA_TRY(batch, evaluate(b_batch(gemm), symbols));
      ATTACCA_TRY(sizes.offsets, evaluate_access(gemm.groups->access, symbols));
    }
    ATTACCA_TRY(sizes.b,
                b_operand(product, std::move(batch), domain.back(), symbols, sizes.b_offset));
    ATTACCA_TRY(sizes.column_offset, product.column_offset.evaluate(symbols));
    if (gemm.a.rows) {
      ATTACCA_TRY(sizes.rows, measure_rows(*gemm.a.rows, symbols));
    }
    // Which products are small depends on the rows.
    sizes.small = !product.packed && !gemm.b.codes && product.panels != Panels::Fixed &&
                  static_cast<double>(product_of(domain)) * static_cast<double>(sizes.a.columns) <=
                      static_cast<double>(kSmall);
    all.push_back(std::move(sizes));
  }
  return all;
}

std::optional<Groups> Products::groups(const RunState& state,
                                       const std::vector<ProductSizes>& sizes) const {
  if (products_.empty() || !products_[0].gemm->groups) return std::nullopt;
  const Tensor& offsets = state.values[products_[0].gemm->groups->source.id];
  const ConcreteAccess& access = sizes[0].offsets;
  return Groups{ir::group_ends(offsets.as<int32_t>() + access.offset, sizes[0].b.batch[0],
                               access.strides[0], sizes[0].a.rows)};
}

Result<std::vector<PreparedProduct>> Products::prepare(RunState& state,
                                                       const std::vector<ProductSizes>& sizes,
                                                       const std::optional<Groups>& groups) const {
  std::vector<PreparedProduct> prepared;
  for (size_t i = 0; i < products_.size(); ++i) {
    ATTACCA_TRY(PreparedProduct each, prepare_one(products_[i], sizes[i], state, groups, prepared));
    prepared.push_back(std::move(each));
  }
  return prepared;
}

MatrixView PreparedProduct::rows_of(const Tile& tile) const {
  const MatrixView all = a.at(tile.batch);
  if (!rows) return all.part(tile.row0, tile.row1, 0, a.columns);
  thread_local AlignedBuffer copies;
  const ir::DType dtype = sizes->small ? a.dtype : a_dtype(product->kind);
  const int64_t count = tile.row1 - tile.row0, bytes = a.columns * ir::size_of(dtype);
  std::byte* to = copies.reserve(static_cast<size_t>(count * bytes));
  for (int64_t i = 0; i < count; ++i) {
    const int64_t row = (*rows)[static_cast<size_t>(tile.row0 + i)];
    copy_dense(all.part(row, row + 1, 0, a.columns), dtype, to + i * bytes);
  }
  return {to, dtype, count, a.columns, a.columns, 1};
}

void PreparedProduct::multiply(const Tile& tile, int64_t block, int64_t group,
                               const std::vector<int64_t>& domain, std::byte* accumulators) const {
  const bool grouped = product->gemm->groups.has_value();
  const int64_t matrix = grouped ? group : tile.batch;
  const MatrixView part = matrix == Groups::kNone ? MatrixView() : rows_of(tile);
  if (matrix == Groups::kNone) {
    const int64_t count = (tile.row1 - tile.row0) * (tile.column1 - tile.column0);
    std::memset(accumulators, 0,
                static_cast<size_t>(count * ir::size_of(accumulator_dtype(product->kind))));
  } else if (sizes->small) {
    multiply_small(product->kind, part, b.at(matrix).part(0, b.rows, tile.column0, tile.column1),
                   accumulators);
  } else {
    packed->of(matrix, grouped ? sizes->b.batch : domain)
        .multiply(part.data, part.rows, block, accumulators, product->panels);
  }
  if (collected) collect(*this, tile, accumulators);
}

}  // namespace attacca::run
