#include "run/cpu/gemm.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>
#include <optional>
#include <set>
#include <shared_mutex>
#include <tuple>

#include "fmt/format.h"
#include "oneapi/dnnl/dnnl.hpp"

#include "support/check.hpp"
#include "support/files/process_gate.hpp"
#include "support/immortal.hpp"

namespace attacca::run {
namespace {

using dnnl::memory;
using ir::DType;

// Products of bytes sum exactly in f32 over this many terms: 256 * 255 * 255 < 2^24.
constexpr int64_t kExactSlice = 256;

const dnnl::engine& engine() {
  return immortal([] { return dnnl::engine(dnnl::engine::kind::cpu, 0); });
}

// oneDNN makes static objects when a kind of primitive is made or run for the first time. exit()
// destroys them even while another thread runs that primitive.
void used(const std::string& primitive) {
  static std::mutex mutex;
  static auto& known = *new std::set<std::string>;
  const std::lock_guard lock(mutex);
  if (known.insert(primitive).second) wait_at_exit();
}

dnnl::stream& stream() {
  thread_local dnnl::stream own(engine());
  return own;
}

// Each line orders instruction sets by inclusion. oneDNN's numbers for them are in no such order.
bool has_vnni() {
  switch (dnnl::get_effective_cpu_isa()) {
    case dnnl::cpu_isa::all:
    case dnnl::cpu_isa::sse41:
    case dnnl::cpu_isa::avx:
    case dnnl::cpu_isa::avx2:
    case dnnl::cpu_isa::avx512_core:
      return false;
    default:
      return true;
  }
}
bool has_bf16() {
  switch (dnnl::get_effective_cpu_isa()) {
    case dnnl::cpu_isa::avx512_core_bf16:
    case dnnl::cpu_isa::avx512_core_amx:
      return true;
    default:
      return false;
  }
}

memory::data_type data_type(DType dtype) {
  switch (dtype) {
    case DType::F32:
      return memory::data_type::f32;
    case DType::BF16:
      return memory::data_type::bf16;
    case DType::S8:
      return memory::data_type::s8;
    case DType::U8:
      return memory::data_type::u8;
    case DType::S32:
      return memory::data_type::s32;
    default:
      ATTACCA_CHECK(false, "oneDNN does not take this dtype");
  }
}

DType b_dtype(GemmKind kind) {
  switch (kind) {
    case GemmKind::BF16:
      return DType::BF16;
    case GemmKind::S8:
    case GemmKind::U8:
    case GemmKind::S8ByU8:
    case GemmKind::U8ByU8:
      return DType::S8;
    case GemmKind::F64:
      return DType::F64;
    default:
      return DType::F32;
  }
}

// oneDNN's product of u8 by s8 is exact. Its products of other pairs of bytes add a correction to
// sums that it has rounded to f32. So an s8 A is multiplied as u8, 128 more, and a u8 B as s8, 128
// less: (A + 128)(B - 128). What that changes is added here, modulo 2^32 as sums wrap.
constexpr uint32_t kShift = 128;

bool is_a_shifted(GemmKind kind) {
  return kind == GemmKind::S8 || kind == GemmKind::S8ByU8;
}

bool is_b_shifted(GemmKind kind) {
  return kind == GemmKind::S8ByU8 || kind == GemmKind::U8ByU8;
}

bool is_of_bytes(GemmKind kind) {
  return kind == GemmKind::U8 || is_a_shifted(kind) || is_b_shifted(kind);
}

// s8 to u8, 128 more; u8 to s8, 128 less.
void shift_bytes(const std::byte* from, size_t count, std::byte* to) {
  for (size_t i = 0; i < count; ++i) to[i] = from[i] ^ std::byte{kShift};
}

// The sums of the columns of an s8 matrix with these strides, modulo 2^32.
void add_columns(const std::byte* bytes, int64_t rows, int64_t columns, const memory::dims& strides,
                 uint32_t* sums) {
  const auto* numbers = reinterpret_cast<const int8_t*>(bytes);
  std::fill(sums, sums + columns, 0);
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j)
      sums[j] += static_cast<uint32_t>(int32_t{numbers[i * strides[0] + j * strides[1]]});
}

bool is_reference(const std::string& implementation) {
  return implementation.find("ref") != std::string::npos;
}

dnnl::matmul::primitive_desc describe(GemmKind kind, int64_t rows, int64_t k, int64_t columns,
                                      const memory::desc* packed) {
  const DType left = is_of_bytes(kind) ? DType::U8 : a_dtype(kind);
  const memory::desc a({rows, k}, data_type(left), memory::format_tag::ab);
  const memory::desc any({k, columns}, data_type(b_dtype(kind)), memory::format_tag::any);
  const DType out = kind == GemmKind::Integers ? DType::F32 : accumulator_dtype(kind);
  const memory::desc c({rows, columns}, data_type(out), memory::format_tag::ab);
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return {dnnl::matmul::desc(a, packed ? *packed : any, c), attributes, engine()};
}

// The rows for which oneDNN picks the packed layout: a typical panel's.
constexpr int64_t kTypicalRows = 64;

// The rows of a panel of fixed rows. Without AVX-512, oneDNN's product sums the rows that are left
// over from groups of six in another order. 240 rows took as long six at a time as all at once.
constexpr int64_t kFixedRows = 6;

}  // namespace

GemmKind choose_gemm(DType a, DType b, DType accumulator) {
  if (accumulator == DType::F64) return GemmKind::F64;
  if (ir::is_integer(a)) {
    if (!has_vnni()) return GemmKind::Integers;
    if (b == DType::U8) return a == DType::S8 ? GemmKind::S8ByU8 : GemmKind::U8ByU8;
    return a == DType::S8 ? GemmKind::S8 : GemmKind::U8;
  }
  return a == DType::BF16 && b == DType::BF16 && has_bf16() ? GemmKind::BF16 : GemmKind::F32;
}

DType a_dtype(GemmKind kind) {
  return kind == GemmKind::U8 || kind == GemmKind::U8ByU8 ? DType::U8 : b_dtype(kind);
}

DType accumulator_dtype(GemmKind kind) {
  switch (kind) {
    case GemmKind::F32:
    case GemmKind::BF16:
      return DType::F32;
    case GemmKind::F64:
      return DType::F64;
    default:
      return DType::S32;
  }
}

int64_t block_columns(int64_t n) {
  constexpr int64_t kWidest = 256;
  return std::clamp<int64_t>(n, 1, kWidest);
}

// Multiplies by a [k, columns] piece of B. All pieces of one shape share one.
class PieceShape {
 public:
  // Making one takes longer than a small product, so the process keeps them.
  static std::shared_ptr<PieceShape> of(GemmKind kind, int64_t k, int64_t columns) {
    static auto& kept =
        *new std::map<std::tuple<GemmKind, int64_t, int64_t>, std::shared_ptr<PieceShape>>;
    static std::mutex mutex;
    constexpr size_t kMost = 256;
    const std::lock_guard lock(mutex);
    if (kept.size() >= kMost)
      std::erase_if(kept, [](const auto& each) { return each.second.use_count() == 1; });
    auto& shape = kept[{kind, k, columns}];
    if (!shape) shape = std::make_shared<PieceShape>(kind, k, columns);
    return shape;
  }

  PieceShape(GemmKind kind, int64_t k, int64_t columns) : kind_(kind), k_(k), columns_(columns) {
    const auto typical = describe(kind, kTypicalRows, k, columns, nullptr);
    packed_ = typical.weights_desc();
  }

  const memory::desc& packed() const { return packed_; }

  // Packs a dense or strided piece of B with these strides.
  struct Packing {
    memory::desc from;
    dnnl::reorder primitive;
    mutable std::atomic<bool> ran = false;
  };
  std::shared_ptr<const Packing> packing(const memory::dims& strides) {
    constexpr size_t kMost = 16;
    const std::lock_guard lock(packings_mutex_);
    if (packings_.size() >= kMost) packings_.clear();
    auto& slot = packings_[strides];
    if (!slot) {
      const memory::desc from({k_, columns_}, data_type(b_dtype(kind_)), strides);
      slot.reset(new Packing{from, dnnl::reorder({engine(), from, engine(), packed_})});
    }
    return slot;
  }

  struct Panel {
    const uint64_t id;  // unique in this process
    int64_t rows;  // more than requested if oneDNN has only a reference implementation for so few
    dnnl::matmul::primitive_desc description;
    dnnl::matmul primitive;
    mutable std::atomic<bool> ran = false;
  };
  // For this many rows, made on first use.
  const Panel& panel(int64_t rows) {
    {
      const std::shared_lock lock(mutex_);
      if (const auto found = panels_.find(rows); found != panels_.end()) return *found->second;
    }
    const std::unique_lock lock(mutex_);
    auto& slot = panels_[rows];
    if (!slot) slot = make(rows);
    return *slot;
  }

 private:
  std::unique_ptr<Panel> make(int64_t rows) const {
    for (const int64_t tried : {rows, (rows + kTypicalRows - 1) / kTypicalRows * kTypicalRows}) {
      try {
        const auto description = describe(kind_, tried, k_, columns_, &packed_);
        if (is_reference(description.impl_info_str())) continue;
        static std::atomic<uint64_t> next = 1;
        return std::unique_ptr<Panel>(
            new Panel{next++, tried, description, dnnl::matmul(description)});
      } catch (const dnnl::error& error) {
        if (error.status == dnnl_out_of_memory) throw std::bad_alloc();
      }
    }
    ATTACCA_CHECK(false, "oneDNN has no fast product for a panel");
  }

  const GemmKind kind_;
  const int64_t k_, columns_;
  memory::desc packed_;
  std::mutex packings_mutex_;
  std::map<memory::dims, std::shared_ptr<const Packing>> packings_;
  std::shared_mutex mutex_;
  std::map<int64_t, std::unique_ptr<Panel>> panels_;
};

struct PackedMatrix::Impl {
  // By (k of the slice, columns of the block).
  std::map<std::pair<int64_t, int64_t>, std::shared_ptr<PieceShape>> shapes;
  std::vector<AlignedBuffer> pieces;  // block-major, then slices of K
  std::vector<memory> weights;        // the same, for oneDNN
  std::vector<uint32_t> column_sums;  // of B as it is multiplied, where A is shifted
  int64_t slices = 1;
  int64_t slice_k = 0;

  PieceShape& shape(int64_t k, int64_t columns) const { return *shapes.at({k, columns}); }
};

PackedMatrix::PackedMatrix(GemmKind kind, int64_t k, int64_t n)
    : kind_(kind), k_(k), n_(n), width_(block_columns(n)), impl_(std::make_unique<Impl>()) {
  const LibraryHold hold;
  impl_->slice_k = kind == GemmKind::Integers ? std::min(k, kExactSlice) : k;
  impl_->slices = k == 0 ? 0 : (k + impl_->slice_k - 1) / impl_->slice_k;
  impl_->pieces.resize(blocks() * impl_->slices);
  impl_->weights.resize(impl_->pieces.size());
  if (is_a_shifted(kind)) impl_->column_sums.resize(n);
  if (kind == GemmKind::F64 || k == 0) return;
  for (int64_t block = 0; block < blocks(); ++block)
    for (int64_t slice = 0; slice < impl_->slices; ++slice) {
      const int64_t depth = std::min(impl_->slice_k, k - slice * impl_->slice_k);
      const int64_t columns = block_end(block) - block_begin(block);
      auto& shape = impl_->shapes[{depth, columns}];
      if (!shape) shape = PieceShape::of(kind, depth, columns);
    }
}
PackedMatrix::~PackedMatrix() = default;
PackedMatrix::PackedMatrix(PackedMatrix&&) noexcept = default;

int64_t PackedMatrix::blocks() const {
  return (n_ + width_ - 1) / width_;
}

void PackedMatrix::pack_block(const MatrixView& b, int64_t block) {
  const int64_t columns = block_end(block) - block_begin(block);
  for (int64_t slice = 0; slice < impl_->slices; ++slice) {
    const int64_t k0 = slice * impl_->slice_k, k1 = std::min(k_, k0 + impl_->slice_k);
    const MatrixView part = b.part(k0, k1, block_begin(block), block_end(block));
    AlignedBuffer& piece = impl_->pieces[block * impl_->slices + slice];
    const DType dtype = b_dtype(kind_);
    if (kind_ == GemmKind::F64) {
      copy_dense(part, dtype, piece.reserve(static_cast<size_t>(part.rows * columns) * 8));
      continue;
    }
    PieceShape& shape = impl_->shape(k1 - k0, columns);
    // oneDNN reorders from row-major and column-major matrices of every type it multiplies.
    thread_local AlignedBuffer dense;
    const bool column_major = part.column_stride != 1 && part.row_stride == 1;
    const bool direct = part.dtype == dtype && dtype != DType::S8 &&
                        ((column_major && part.column_stride >= part.rows) ||
                         (part.column_stride == 1 && part.row_stride >= columns));
    memory::dims strides{part.row_stride, part.column_stride};
    auto* from = const_cast<std::byte*>(part.data);
    if (!direct) {
      const auto count = static_cast<size_t>(part.rows * columns);
      const DType copied = is_b_shifted(kind_) ? part.dtype : dtype;
      from = dense.reserve(count * ir::size_of(copied));
      copy_dense(column_major ? part.transposed() : part, copied, from);
      if (is_b_shifted(kind_)) shift_bytes(from, count, from);
      strides = column_major ? memory::dims{1, part.rows} : memory::dims{columns, 1};
    }
    if (is_a_shifted(kind_))
      add_columns(from, part.rows, columns, strides,
                  impl_->column_sums.data() + block_begin(block));
    const auto packing = shape.packing(strides);
    const memory plain(packing->from, engine(), from);
    const memory target(shape.packed(), engine(), piece.reserve(shape.packed().get_size()));
    packing->primitive.execute(stream(), const_cast<memory&>(plain), const_cast<memory&>(target));
    stream().wait();
    if (!packing->ran.load(std::memory_order_relaxed) && !packing->ran.exchange(true))
      used(fmt::format("reorder {} {}", ir::name(part.dtype), column_major));
    impl_->weights[block * impl_->slices + slice] = target;
  }
}

namespace {

// C = A B, all dense.
template <class Lane>
void multiply_dense(const Lane* a, const Lane* b, int64_t rows, int64_t k, int64_t n, Lane* c) {
  for (int64_t i = 0; i < rows; ++i) {
    Lane* out = c + i * n;
    std::fill(out, out + n, Lane{0});
    for (int64_t l = 0; l < k; ++l) {
      const Lane x = a[i * k + l];
      const Lane* row = b + l * n;
      for (int64_t j = 0; j < n; ++j) out[j] += x * row[j];
    }
  }
}

// The view's elements, dense: copied to `own` unless they are dense already.
template <class Lane>
const Lane* dense(const MatrixView& view, AlignedBuffer& own) {
  const DType wanted = sizeof(Lane) == 8 ? DType::F64 : DType::F32;
  const bool as_it_is = view.dtype == wanted && (view.column_stride == 1 || view.columns <= 1) &&
                        (view.row_stride == view.columns || view.rows <= 1);
  if (as_it_is) return reinterpret_cast<const Lane*>(view.data);
  std::byte* to = own.reserve(static_cast<size_t>(view.rows * view.columns) * sizeof(Lane));
  copy_dense(view, wanted, to);
  return reinterpret_cast<const Lane*>(to);
}

template <class Lane>
void multiply_views(const MatrixView& a, const MatrixView& b, Lane* c) {
  thread_local AlignedBuffer own_a, own_b;
  multiply_dense(dense<Lane>(a, own_a), dense<Lane>(b, own_b), a.rows, a.columns, b.columns, c);
}

// The arguments of a call for one panel, except the weights. They are kept because making them
// takes as long as a small product.
struct PanelArguments {
  uint64_t panel = 0;
  memory a, c, scratch;
  AlignedBuffer scratch_bytes;

  explicit PanelArguments(const PieceShape::Panel& panel)
      : panel(panel.id),
        a(panel.description.src_desc(), engine(), DNNL_MEMORY_NONE),
        c(panel.description.dst_desc(), engine(), DNNL_MEMORY_NONE),
        scratch(panel.description.scratchpad_desc(), engine(), DNNL_MEMORY_NONE) {
    scratch.set_data_handle(scratch_bytes.reserve(scratch.get_desc().get_size()));
  }
};

PanelArguments& arguments_of(const PieceShape::Panel& panel) {
  constexpr size_t kKept = 4;
  thread_local std::optional<PanelArguments> kept[kKept];
  auto& slot = kept[panel.id % kKept];
  if (!slot || slot->panel != panel.id) slot.emplace(panel);
  return *slot;
}

void execute_panel(const PieceShape::Panel& panel, const std::byte* a, const memory& b,
                   std::byte* c) {
  PanelArguments& own = arguments_of(panel);
  own.a.set_data_handle(const_cast<std::byte*>(a));
  own.c.set_data_handle(c);
  const dnnl_exec_arg_t arguments[] = {{DNNL_ARG_SRC, own.a.get()},
                                       {DNNL_ARG_WEIGHTS, b.get()},
                                       {DNNL_ARG_DST, own.c.get()},
                                       {DNNL_ARG_SCRATCHPAD, own.scratch.get()}};
  dnnl::error::wrap_c_api(dnnl_primitive_execute(panel.primitive.get(), stream().get(),
                                                 std::size(arguments), arguments),
                          "cannot multiply a panel");
  stream().wait();
  if (!panel.ran.load(std::memory_order_relaxed) && !panel.ran.exchange(true))
    used(panel.description.impl_info_str());
}

// Multiplies a panel's first rows; the others are zeros.
void execute_padded(const PieceShape::Panel& panel, int64_t rows, const std::byte* a,
                    const memory& b, std::byte* c) {
  thread_local AlignedBuffer padded_a, padded_c;
  const size_t row_bytes = panel.description.src_desc().get_size() / panel.rows;
  std::byte* in = padded_a.reserve(row_bytes * panel.rows);
  std::memset(in, 0, row_bytes * panel.rows);
  std::memcpy(in, a, row_bytes * rows);
  const size_t out_bytes = panel.description.dst_desc().get_size() / panel.rows;
  std::byte* out = padded_c.reserve(out_bytes * panel.rows);
  execute_panel(panel, in, b, out);
  std::memcpy(c, out, out_bytes * rows);
}

// c[rows, columns] = a[rows, k] times a packed piece.
void execute(PieceShape& shape, int64_t rows, const std::byte* a, const memory& b, std::byte* c,
             Panels panels) {
  const PieceShape::Panel& panel = shape.panel(panels == Panels::Fixed ? kFixedRows : rows);
  const int64_t a_bytes =
      static_cast<int64_t>(panel.description.src_desc().get_size()) / panel.rows;
  const int64_t c_bytes =
      static_cast<int64_t>(panel.description.dst_desc().get_size()) / panel.rows;
  for (; rows >= panel.rows; rows -= panel.rows) {
    execute_panel(panel, a, b, c);
    a += panel.rows * a_bytes;
    c += panel.rows * c_bytes;
  }
  if (rows > 0) execute_padded(panel, rows, a, b, c);
}

}  // namespace

void multiply_small(GemmKind kind, const MatrixView& a, const MatrixView& b,
                    std::byte* accumulators) {
  const DType out = accumulator_dtype(kind);
  if (out == DType::F32) return multiply_views(a, b, reinterpret_cast<float*>(accumulators));
  if (out == DType::F64) return multiply_views(a, b, reinterpret_cast<double*>(accumulators));
  thread_local AlignedBuffer sums;  // exact
  const auto count = static_cast<size_t>(a.rows * b.columns);
  auto* exact = reinterpret_cast<double*>(sums.reserve(count * sizeof(double)));
  multiply_views(a, b, exact);
  auto* integers = reinterpret_cast<int32_t*>(accumulators);
  std::transform(exact, exact + count, integers,
                 [](double sum) { return static_cast<int32_t>(sum); });
}

// (A + 128)(B - 128) = AB - 128 A + 128 (B - 128): the last two are sums of the rows and columns.
void PackedMatrix::unshift(const std::byte* a, int64_t rows, int64_t columns,
                           const uint32_t* column_sums, std::byte* accumulators) const {
  for (int64_t i = 0; i < rows; ++i) {
    auto* sums = reinterpret_cast<uint32_t*>(accumulators) + i * columns;
    if (is_a_shifted(kind_))
      for (int64_t j = 0; j < columns; ++j) sums[j] -= kShift * column_sums[j];
    if (!is_b_shifted(kind_)) continue;
    uint32_t of_row = is_a_shifted(kind_) ? -kShift * static_cast<uint32_t>(k_) : 0;
    for (int64_t l = 0; l < k_; ++l) of_row += std::to_integer<uint32_t>(a[i * k_ + l]);
    for (int64_t j = 0; j < columns; ++j) sums[j] += kShift * of_row;
  }
}

void PackedMatrix::multiply(const std::byte* a, int64_t rows, int64_t block,
                            std::byte* accumulators, Panels panels) const {
  const int64_t columns = block_end(block) - block_begin(block);
  if (rows == 0 || columns == 0) return;
  if (k_ == 0) {
    std::memset(accumulators, 0, rows * columns * ir::size_of(accumulator_dtype(kind_)));
    return;
  }
  const memory* weights = &impl_->weights[block * impl_->slices];
  if (kind_ == GemmKind::F64) {
    const AlignedBuffer& piece = impl_->pieces[block];
    multiply_dense(reinterpret_cast<const double*>(a),
                   reinterpret_cast<const double*>(piece.data()), rows, k_, columns,
                   reinterpret_cast<double*>(accumulators));
    return;
  }
  if (is_of_bytes(kind_)) {
    thread_local AlignedBuffer shifted;
    const std::byte* left = a;
    if (is_a_shifted(kind_)) {
      const auto count = static_cast<size_t>(rows * k_);
      shift_bytes(a, count, shifted.reserve(count));
      left = shifted.data();
    }
    execute(impl_->shape(k_, columns), rows, left, *weights, accumulators, panels);
    unshift(left, rows, columns, impl_->column_sums.data() + block_begin(block), accumulators);
    return;
  }
  if (kind_ != GemmKind::Integers) {
    execute(impl_->shape(k_, columns), rows, a, *weights, accumulators, panels);
    return;
  }
  thread_local AlignedBuffer part, product;
  auto* sums = reinterpret_cast<int32_t*>(accumulators);
  std::fill(sums, sums + rows * columns, 0);
  const auto* terms = reinterpret_cast<const float*>(
      product.reserve(static_cast<size_t>(rows * columns) * sizeof(float)));
  for (int64_t slice = 0; slice < impl_->slices; ++slice) {
    const int64_t k0 = slice * impl_->slice_k, k1 = std::min(k_, k0 + impl_->slice_k);
    const MatrixView panel{a, DType::F32, rows, k_, k_, 1};
    std::byte* own = part.reserve(static_cast<size_t>(rows * (k1 - k0)) * sizeof(float));
    copy_dense(panel.part(0, rows, k0, k1), DType::F32, own);
    execute(impl_->shape(k1 - k0, columns), rows, own, weights[slice], product.data(),
            Panels::AsTheyAre);  // exact
    // Unsigned, because s32 products wrap.
    for (int64_t i = 0; i < rows * columns; ++i)
      sums[i] = static_cast<int32_t>(static_cast<uint32_t>(sums[i]) +
                                     static_cast<uint32_t>(static_cast<int32_t>(terms[i])));
  }
}

std::string PackedMatrix::implementation(int64_t rows) const {
  if (kind_ == GemmKind::F64 || impl_->shapes.empty()) return "loops";
  const LibraryHold hold;
  return impl_->shapes.begin()->second->panel(rows).description.impl_info_str();
}

}  // namespace attacca::run
