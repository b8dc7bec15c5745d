#include "run/cpu/epilogue_runner.hpp"

#include <algorithm>
#include <cstring>

#include "run/cpu/kernels/transpose.hpp"
#include "support/check.hpp"

namespace attacca::run {
namespace {

constexpr size_t kAlign = 64;

size_t lane_bytes(Lane lane) {
  return is_wide(lane) ? 8 : 4;
}

// Copies the first lane to the others.
void repeat(std::byte* lanes, size_t width, size_t count) {
  size_t done = 1;
  for (; done < std::min<size_t>(count, 8); ++done) std::memcpy(lanes + done * width, lanes, width);
  for (; done < count; done = std::min(2 * done, count))
    std::memcpy(lanes + done * width, lanes, std::min(done, count - done) * width);
}

template <class T>
void gather(const std::byte* from, int64_t stride, int64_t count, std::byte* to) {
  const T* in = reinterpret_cast<const T*>(from);
  T* out = reinterpret_cast<T*>(to);
  for (int64_t i = 0; i < count; ++i) out[i] = in[i * stride];
}
template <class T>
void scatter(const std::byte* from, int64_t stride, int64_t count, std::byte* to) {
  const T* in = reinterpret_cast<const T*>(from);
  T* out = reinterpret_cast<T*>(to);
  for (int64_t i = 0; i < count; ++i) out[i * stride] = in[i];
}
#define BY_WIDTH(FUNCTION, WIDTH, ...) \
  switch (WIDTH) {                     \
    case 1:                            \
      FUNCTION<uint8_t>(__VA_ARGS__);  \
      break;                           \
    case 2:                            \
      FUNCTION<uint16_t>(__VA_ARGS__); \
      break;                           \
    case 4:                            \
      FUNCTION<uint32_t>(__VA_ARGS__); \
      break;                           \
    default:                           \
      FUNCTION<uint64_t>(__VA_ARGS__); \
  }

// to[r + c * stride] = from[r * columns + c], in blocks that stay in cache.
template <class T>
void copy_transposed(const std::byte* from, int64_t rows, int64_t columns, int64_t stride,
                     std::byte* to) {
  constexpr int64_t kSide = 16;
  const T* in = reinterpret_cast<const T*>(from);
  T* out = reinterpret_cast<T*>(to);
  for (int64_t c0 = 0; c0 < columns; c0 += kSide)
    for (int64_t r0 = 0; r0 < rows; r0 += kSide) {
      const int64_t high = std::min(kSide, rows - r0), wide = std::min(kSide, columns - c0);
      if constexpr (sizeof(T) == sizeof(uint32_t)) {
        transpose_block(in + r0 * columns + c0, columns, wide, high, out + c0 * stride + r0,
                        stride);
      } else {
        for (int64_t c = c0; c < c0 + wide; ++c)
          for (int64_t r = r0; r < r0 + high; ++r) out[r + c * stride] = in[r * columns + c];
      }
    }
}

}  // namespace

void ChunkScratch::reset(size_t bytes) {
  block_.reserve(bytes);
  capacity_ = bytes;
  used_ = 0;
}

std::byte* ChunkScratch::take(size_t bytes) {
  std::byte* at = block_.data() + used_;
  used_ += (bytes + kAlign - 1) / kAlign * kAlign;
  ATTACCA_CHECK(used_ <= capacity_, "chunk scratch is too small");
  return at;
}

// One operand or stored result: where its tile begins, and its steps.
struct BoundEpilogue::Stream {
  int slot = 0;
  ir::DType dtype = ir::DType::F32;
  std::byte* tile = nullptr;
  int64_t row_stride = 0, column_stride = 0;  // in elements
  Kernel convert = nullptr;                   // load or store; nullptr: used in place
  std::byte* lanes = nullptr;                 // converted values: of a chunk, or of the whole tile
  bool whole_tile = false;                    // rows are alike: converted once a tile
  const int64_t* rows = nullptr;              // of the tensor, if not those of the tile
  std::byte* columns = nullptr;  // where the tile goes at the end, whose columns are in memory
  int64_t columns_stride = 0;    // from one to the next

  std::byte* at(int64_t row, int64_t column) const {
    if (rows) row = rows[row];
    return tile + (row * row_stride + column * column_stride) * ir::size_of(dtype);
  }
};

// Runs one tile. Rows and columns count from its corner.
class BoundEpilogue::Walk {
 public:
  Walk(const BoundEpilogue& bound, const Tile& tile, std::span<const AccumulatorTile> accumulators,
       ChunkScratch& scratch, std::span<std::byte* const> kept)
      : bound_(bound),
        program_(program_of(bound.program_, tile)),
        rows_(tile.row1 - tile.row0),
        columns_(tile.column1 - tile.column0),
        group_(tile.group) {
    reserve(scratch);
    if (rows_ > 1 && columns_ > 0 && columns_ <= kChunk / 2 && rows_alike())
      together_ = std::min(rows_, kChunk / columns_);
    const std::vector<int64_t> origin = bound.coordinates(tile);
    size_t accumulator = 0;
    for (size_t i = 0; i < bound.inputs_.size(); ++i) {
      const epilogue::Input& input = bound.epilogue_.inputs[i];
      if (input.role == epilogue::Role::Accumulator)
        add_accumulator(i, accumulators[accumulator++]);
      else
        add_operand(i, origin, scratch);
    }
    for (size_t i = 0; i < bound.outputs_.size(); ++i)
      add_store(i, origin, kept.empty() ? nullptr : kept[i], scratch);
  }

  void run() {
    run_chunks();
    for (const Stream& s : results_)
      if (s.columns)
        BY_WIDTH(copy_transposed, ir::size_of(s.dtype), s.tile, rows_, columns_, s.columns_stride,
                 s.columns);
  }

 private:
  void run_chunks() {
    if (program_.chain && rows_ > 0 && columns_ > 0 && is_contiguous()) return run_chain();
    if (columns_ == 0) return;
    if (program_.integer_chain && rows_ > 0 && is_dense_integer_chain()) return run_integer_chain();
    if (columns_ <= kChunk) run_alike_steps();
    for (int64_t row = 0; row < rows_; row += together_)
      for (int64_t column = 0; column < columns_; column += kChunk)
        run_chunk(
            {row, std::min(together_, rows_ - row), column, std::min(kChunk, columns_ - column)});
  }

  // Elements that are computed at once: of one row, or all of some rows.
  struct Chunk {
    int64_t row, rows, column, columns;
    int64_t count() const { return rows * columns; }
  };

  // Short rows are computed several at once, although a row's one value must then be repeated: that
  // takes about as long as beginning two steps.
  static const ChunkProgram& program_of(const ChunkProgram& program, const Tile& tile) {
    constexpr int64_t kShort = 256, kOfStep = 32;
    const int64_t most = std::min(kShort, kOfStep * static_cast<int64_t>(program.steps.size()));
    const bool several = tile.column1 - tile.column0 <= most && tile.row1 - tile.row0 > 1;
    return several && program.of_rows ? *program.of_rows : program;
  }

  // Whether no operand has one value for each row, which a program takes for a whole chunk.
  bool rows_alike() const {
    for (size_t i = 0; i < bound_.inputs_.size(); ++i) {
      const std::vector<int64_t>& strides = bound_.inputs_[i].strides;
      if (program_.slots[i].splat && strides[strides.size() - 2] != 0) return false;
    }
    return true;
  }

  // Whether a tile of it is worth moving as a whole, since its columns lie in memory and not its
  // rows.
  bool lies_in_columns(const BoundAccess& access) const {
    const size_t rank = access.strides.size();
    return access.base && !access.rows && rows_ >= 8 && columns_ >= 8 &&
           access.strides[rank - 2] == 1 && access.strides[rank - 1] > 1;
  }

  // Whether the elements of a chunk follow each other in memory.
  bool is_dense(const Stream& s) const {
    return s.column_stride == 1 && (together_ == 1 || (s.row_stride == columns_ && !s.rows));
  }

  void reserve(ChunkScratch& scratch) {
    const size_t chunk = kChunk * sizeof(double);
    const auto width = static_cast<size_t>(std::max<int64_t>(columns_, kChunk)) * sizeof(double);
    const auto tile = static_cast<size_t>(rows_ * columns_) * sizeof(double) + kAlign;
    size_t bytes = (program_.buffers + 2) * chunk + bound_.inputs_.size() * (width + kAlign);
    for (const auto* accesses : {&bound_.inputs_, &bound_.outputs_})
      for (const BoundAccess& access : *accesses) bytes += lies_in_columns(access) ? tile : 0;
    scratch.reset(bytes);
    slots_.resize(program_.slots.size());
    packed_ = scratch.take(chunk);
    filled_ = scratch.take(chunk);
    std::vector<std::byte*> buffers(program_.buffers);
    for (std::byte*& buffer : buffers) buffer = scratch.take(chunk);
    for (size_t s = 0; s < slots_.size(); ++s) {
      const Slot& slot = program_.slots[s];
      if (slot.kind == Slot::Kind::Buffer) slots_[s] = buffers[slot.index];
      if (slot.kind == Slot::Kind::Constant)
        slots_[s] =
            reinterpret_cast<std::byte*>(const_cast<double*>(&program_.constants[slot.index]));
    }
  }

  // Operands were added in the order of the inputs.
  bool is_contiguous() const {
    const Chain& chain = *program_.chain;
    const auto steps = [&](int input) { return operands_[input].column_stride == 1; };
    if (chain.bias && operands_[*chain.bias].row_stride != 0) return false;
    return steps(chain.x) && (!chain.bias || steps(*chain.bias)) &&
           (!chain.other || steps(*chain.other)) && results_[0].column_stride == 1;
  }

  void run_chain() {
    const Chain& chain = *program_.chain;
    ChainArgs args{.rows = rows_, .columns = columns_, .alpha = chain.alpha};
    args.x = reinterpret_cast<const float*>(operands_[chain.x].tile);
    args.x_stride = operands_[chain.x].row_stride;
    if (chain.bias) {
      const Stream& bias = operands_[*chain.bias];
      args.bias = reinterpret_cast<const float*>(bias.convert ? bias.lanes : bias.tile);
    }
    if (chain.other) {
      args.other = operands_[*chain.other].tile;
      args.other_stride = operands_[*chain.other].row_stride;
    }
    args.out = results_[0].tile;
    args.out_stride = results_[0].row_stride;
    chain.kernel(args);
  }

  bool is_dense_integer_chain() const {
    const auto& other = program_.integer_chain->other;
    return columns_ <= kChunk && results_.size() == 1 && results_[0].column_stride == 1 &&
           (!other || operands_[*other].column_stride == 1);
  }

  void run_integer_chain() {
    const IntegerChain& chain = *program_.integer_chain;
    const Chunk row{0, 1, 0, columns_};
    for (const Stream& s : operands_) place_operand(s, row);
    for (size_t i = 0; i < program_.alike; ++i)
      run_step(program_.steps[i], static_cast<size_t>(columns_));
    const auto lanes = [&](int slot) { return reinterpret_cast<const float*>(slots_[slot]); };
    const auto scaled = [&](const IntegerChain::Scaled& from) {
      const Stream& s = operands_[from.accumulators];
      ScaledRow to{reinterpret_cast<const int32_t*>(s.tile), s.row_stride};
      if (from.shift) to.shift = reinterpret_cast<const int32_t*>(slots_[*from.shift]);
      to.count = static_cast<int>(from.scales.size());
      for (int i = 0; i < to.count; ++i) to.scales[i] = *lanes(from.scales[i]);
      return to;
    };
    IntegerChainArgs args{
        .x = scaled(chain.x), .gate = {}, .rows = rows_, .columns = columns_, .alpha = chain.alpha};
    if (chain.gate) args.gate = scaled(*chain.gate);
    if (chain.bias) args.bias = lanes(*chain.bias);
    if (chain.quantum) args.quantum = *lanes(*chain.quantum);
    if (chain.zero) args.zero = *lanes(*chain.zero);
    if (chain.other) {
      args.other = reinterpret_cast<const float*>(operands_[*chain.other].tile);
      args.other_stride = operands_[*chain.other].row_stride;
    }
    args.out = results_[0].tile;
    args.out_stride = results_[0].row_stride;
    chain.kernel(args);
  }

  Stream stream(int slot, ir::DType dtype, const BoundAccess& access,
                const std::vector<int64_t>& origin) const {
    Stream s;
    s.slot = slot;
    s.dtype = dtype;
    int64_t offset = group_ * access.group_stride;
    for (size_t axis = 0; axis < origin.size(); ++axis)
      if (!access.rows || axis + 2 != origin.size()) offset += origin[axis] * access.strides[axis];
    if (access.rows) s.rows = access.rows + origin[origin.size() - 2];
    s.tile = access.base + offset * ir::size_of(dtype);
    s.row_stride = access.strides[origin.size() - 2];
    s.column_stride = access.strides[origin.size() - 1];
    return s;
  }

  void add_accumulator(size_t i, const AccumulatorTile& tile) {
    Stream s;
    s.slot = static_cast<int>(i);
    s.dtype = bound_.epilogue_.inputs[i].dtype;
    s.tile = static_cast<std::byte*>(const_cast<void*>(tile.data));
    s.row_stride = tile.row_stride;
    s.column_stride = 1;
    operands_.push_back(s);
  }

  void add_operand(size_t i, const std::vector<int64_t>& origin, ChunkScratch& scratch) {
    const ir::DType dtype = bound_.epilogue_.inputs[i].dtype;
    Stream s = stream(static_cast<int>(i), dtype, bound_.inputs_[i], origin);
    const bool splat = program_.slots[i].splat;
    if (!splat && lies_in_columns(bound_.inputs_[i])) {
      std::byte* tile = scratch.take(static_cast<size_t>(rows_ * columns_ * ir::size_of(dtype)));
      copy_dense({s.tile, dtype, rows_, columns_, 1, s.column_stride}, dtype, tile);
      s.tile = tile;
      s.row_stride = columns_;
      s.column_stride = 1;
    }
    if (has_lanes(dtype) && (splat || is_dense(s))) {
      operands_.push_back(s);
      return;
    }
    s.convert = load_kernel(dtype);
    s.whole_tile = s.row_stride == 0;
    const size_t lane = lane_bytes(program_.slots[i].lane);
    const int64_t width = splat ? 1 : s.whole_tile ? std::max(columns_, kChunk) : kChunk;
    s.lanes = scratch.take(static_cast<size_t>(width) * lane);
    if (s.whole_tile && rows_ > 0) {
      const int64_t count = splat ? 1 : columns_;
      for (int64_t column = 0; column < count; column += kChunk)
        load(s, s.at(0, column), std::min(kChunk, count - column), s.lanes + column * lane);
      for (int64_t row = 1; row < together_ && !splat; ++row)
        std::memcpy(s.lanes + row * columns_ * lane, s.lanes, columns_ * lane);
    }
    operands_.push_back(s);
  }

  void add_store(size_t i, const std::vector<int64_t>& origin, std::byte* kept,
                 ChunkScratch& scratch) {
    if (bound_.outputs_[i].base == nullptr && !kept) return;
    const auto [slot, dtype] = program_.stores[i];
    Stream s = stream(slot, dtype, bound_.outputs_[i], origin);
    if (!kept && lies_in_columns(bound_.outputs_[i])) {
      s.columns = s.tile;
      s.columns_stride = s.column_stride;
      kept = scratch.take(static_cast<size_t>(rows_ * columns_ * ir::size_of(dtype)));
    }
    if (kept) {
      s.tile = kept;
      s.row_stride = columns_;
      s.column_stride = 1;
    }
    const bool direct = program_.direct[slot] == static_cast<int>(i) && is_dense(s);
    if (!direct) s.convert = store_kernel(dtype);
    results_.push_back(s);
  }

  // Elements of a row, wherever they are, to lanes.
  void load(const Stream& s, const std::byte* from, int64_t count, std::byte* to) {
    const std::byte* in = from;
    if (s.column_stride == 0 && count > 1) {
      s.convert({.out = to, .in = {in}, .count = 1});
      return repeat(to, lane_bytes(program_.slots[s.slot].lane), static_cast<size_t>(count));
    }
    if (s.column_stride != 1 && count > 1) {
      BY_WIDTH(gather, ir::size_of(s.dtype), from, s.column_stride, count, packed_);
      in = packed_;
    }
    s.convert({.out = to, .in = {in}, .count = static_cast<size_t>(count)});
  }

  void run_chunk(const Chunk& chunk) {
    for (const Stream& s : operands_) place_operand(s, chunk);
    for (const Stream& s : results_)
      if (!s.convert) slots_[s.slot] = s.at(chunk.row, chunk.column);
    for (size_t i = done_; i < program_.steps.size(); ++i)
      run_step(program_.steps[i], static_cast<size_t>(chunk.count()));
    for (const Stream& s : results_)
      if (s.convert) store(s, chunk);
  }

  // Steps that compute the same for every row run once a tile, where a chunk has whole rows.
  void run_alike_steps() {
    if (program_.alike == 0 || rows_ <= together_) return;
    const Chunk chunk{0, together_, 0, columns_};
    for (const Stream& s : operands_) place_operand(s, chunk);
    for (; done_ < program_.alike; ++done_)
      run_step(program_.steps[done_], static_cast<size_t>(chunk.count()));
  }

  void place_operand(const Stream& s, const Chunk& chunk) {
    const Slot& slot = program_.slots[s.slot];
    const int64_t first = slot.splat ? 0 : chunk.column;
    if (!s.convert) {
      slots_[s.slot] = s.at(chunk.row, first);
    } else if (s.whole_tile) {
      slots_[s.slot] = s.lanes + first * lane_bytes(slot.lane);
    } else {
      if (!slot.splat) {
        for_each_run(s, chunk, [&](int64_t row, int64_t count, int64_t at) {
          load(s, s.at(row, first), count, s.lanes + at * lane_bytes(slot.lane));
        });
      } else if (chunk.column == 0) {
        load(s, s.at(chunk.row, first), 1, s.lanes);
      }
      slots_[s.slot] = s.lanes;
    }
  }

  // Calls f(row, count, first lane) for elements that lie evenly in memory.
  template <class F>
  void for_each_run(const Stream& s, const Chunk& chunk, F f) const {
    if (is_dense(s)) return f(chunk.row, chunk.count(), 0);
    for (int64_t row = 0; row < chunk.rows; ++row)
      f(chunk.row + row, chunk.columns, row * chunk.columns);
  }

  void run_step(const Step& step, size_t count) {
    KernelArgs args;
    args.out = slots_[step.out];
    for (int k = 0; k < step.arity; ++k) {
      args.in[k] = slots_[step.in[k]];
      args.splat[k] = program_.slots[step.in[k]].splat;
    }
    args.count = program_.slots[step.out].splat ? 1 : count;
    std::copy(std::begin(step.params), std::end(step.params), args.params);
    args.scalar = step.scalar.get();
    step.kernel(args);
  }

  void store(const Stream& s, const Chunk& chunk) {
    const std::byte* lanes = slots_[s.slot];
    const Slot& slot = program_.slots[s.slot];
    if (slot.splat) {
      BY_WIDTH(gather, lane_bytes(slot.lane), lanes, 0, chunk.count(), filled_);
      lanes = filled_;
    }
    for_each_run(s, chunk, [&](int64_t row, int64_t count, int64_t at) {
      const std::byte* in = lanes + at * lane_bytes(slot.lane);
      const bool scattered = s.column_stride != 1 && count > 1;
      std::byte* to = s.at(row, chunk.column);
      s.convert({.out = scattered ? packed_ : to, .in = {in}, .count = static_cast<size_t>(count)});
      if (scattered) BY_WIDTH(scatter, ir::size_of(s.dtype), packed_, s.column_stride, count, to);
    });
  }

  const BoundEpilogue& bound_;
  const ChunkProgram& program_;
  const int64_t rows_, columns_, group_;
  int64_t together_ = 1;  // rows of a chunk
  size_t done_ = 0;       // steps that ran for the whole tile
  std::vector<std::byte*> slots_;
  std::byte* packed_ = nullptr;
  std::byte* filled_ = nullptr;
  std::vector<Stream> operands_, results_;
};

BoundEpilogue::BoundEpilogue(const epilogue::Epilogue& epilogue, const ChunkProgram& program,
                             std::vector<int64_t> domain, std::vector<BoundAccess> inputs,
                             std::vector<BoundAccess> outputs)
    : epilogue_(epilogue),
      program_(program),
      domain_(std::move(domain)),
      inputs_(std::move(inputs)),
      outputs_(std::move(outputs)) {
  ATTACCA_CHECK(domain_.size() >= 2, "a domain needs rows and columns");
  if (!is_pointwise(epilogue_)) return;
  merge_axes();
  choose_rows();
}

// Merging makes long rows of short ones. The axes that it frees become leading ones of extent 1.
void BoundEpilogue::merge_axes() {
  const size_t rank = domain_.size();
  size_t inner = rank - 1;
  const auto all = [&](auto test) {
    return std::all_of(inputs_.begin(), inputs_.end(), test) &&
           std::all_of(outputs_.begin(), outputs_.end(), test);
  };
  for (size_t axis = rank - 1; axis-- > 0;) {
    const bool even = all([&](const BoundAccess& access) {
      return access.strides[axis] == access.strides[inner] * domain_[inner];
    });
    if (domain_[axis] != 1 && !even) break;
    domain_[inner] *= domain_[axis];
    domain_[axis] = 1;
  }
}

// Rows are the longest of the outer axes, since a tile has rows of one.
void BoundEpilogue::choose_rows() {
  const size_t row = domain_.size() - 2;
  const auto longest =
      static_cast<size_t>(std::max_element(domain_.begin(), domain_.end() - 1) - domain_.begin());
  if (domain_[longest] == domain_[row]) return;
  std::swap(domain_[longest], domain_[row]);
  for (auto* accesses : {&inputs_, &outputs_})
    for (BoundAccess& access : *accesses) std::swap(access.strides[longest], access.strides[row]);
}

int64_t BoundEpilogue::batches() const {
  int64_t count = 1;
  for (size_t axis = 0; axis + 2 < domain_.size(); ++axis) count *= domain_[axis];
  return count;
}

std::vector<int64_t> BoundEpilogue::coordinates(const Tile& tile) const {
  std::vector<int64_t> at(domain_.size());
  int64_t rest = tile.batch;
  for (size_t axis = domain_.size() - 2; axis-- > 0;) {
    at[axis] = rest % domain_[axis];
    rest /= domain_[axis];
  }
  at[domain_.size() - 2] = tile.row0;
  at[domain_.size() - 1] = tile.column0;
  return at;
}

void BoundEpilogue::run(const Tile& tile, std::span<const AccumulatorTile> accumulators,
                        ChunkScratch& scratch, std::span<std::byte* const> kept) const {
  Walk(*this, tile, accumulators, scratch, kept).run();
}

}  // namespace attacca::run
