#include "run/cpu/reduce.hpp"

#include <algorithm>
#include <cstring>

#include "run/cpu/kernels/reduce.hpp"
#include "run/cpu/thread_pool.hpp"
#include "support/check.hpp"

namespace attacca::run {
namespace {

using ir::Op;

struct Axis {
  int64_t extent, stride;
};
using Axes = std::vector<Axis>;

// Elements converted to lanes at once, and totals that a task has, at most.
constexpr int64_t kSome = 512;
// Elements of a task; less is not worth another thread.
constexpr int64_t kTask = 32 * 1024;

int64_t elements_along(const Axes& axes) {
  int64_t count = 1;
  for (const Axis& axis : axes) count *= axis.extent;
  return count;
}

int64_t position(const Axes& axes, int64_t index) {
  int64_t at = 0;
  for (size_t axis = axes.size(); axis-- > 0;) {
    at += index % axes[axis].extent * axes[axis].stride;
    index /= axes[axis].extent;
  }
  return at;
}

// Calls f with the position of each element, in row-major order.
template <class F>
void for_each(const Axes& axes, int64_t base, const F& f, size_t axis = 0) {
  if (axis == axes.size()) return f(base);
  for (int64_t i = 0; i < axes[axis].extent; ++i)
    for_each(axes, base + i * axes[axis].stride, f, axis + 1);
}

// Whether a sum is in the order of its terms, as the graph's.
bool is_ordered(Op op, Lane lane, ir::Mode mode) {
  return mode == ir::Mode::Eager && is_float(lane) && (op == Op::Sum || op == Op::Mean);
}

class Reduction {
 public:
  Reduction(Op op, const ir::Tensor& from, const std::vector<bool>& reduced, ir::Tensor& to,
            ir::Mode mode)
      : from_(from),
        to_(to),
        lane_(lane_of(from.dtype())),
        reducer_(reducer(op == Op::Mean ? Op::Sum : op, lane_)),
        ordered_(is_ordered(op, lane_, mode)),
        load_(has_lanes(from.dtype()) ? nullptr : load_kernel(from.dtype())) {
    ATTACCA_CHECK(lane_of(to.dtype()) == lane_, "a reduction keeps the lane type");
    find_axes(reduced);
    if (op == Op::Mean)
      divisor_ = static_cast<double>(elements_along(window_) * (columns_ ? 1 : run_));
  }

  void run(int threads) const {
    if (from_.size() <= kTask) threads = 1;
    const int64_t results = elements_along(kept_) * (columns_ ? run_ : 1);
    const int64_t depth = elements_along(window_) * (columns_ ? 1 : run_);
    if (columns_) return run_columns(depth, threads);
    if (window_.empty() && depth > kTask && !ordered_) return run_parts(results, threads);
    const int64_t some = std::clamp<int64_t>(kTask / std::max<int64_t>(depth, 1), 1, kSome);
    ThreadPool::shared().run(threads, divide_up(results, some), [&](int64_t task) {
      Totals totals;
      const int64_t first = task * some, count = std::min(some, results - first);
      reducer_.start(totals.bytes, count);
      for (int64_t i = 0; i < count; ++i)
        for_each(window_, position(kept_, first + i),
                 [&](int64_t at) { reduce_row(at, run_, total(totals.bytes, i)); });
      store(first, count, totals.bytes);
    });
  }

 private:
  struct Totals {
    alignas(64) std::byte bytes[kSome * sizeof(double)];
  };

  // The innermost axis that has several elements is a run of reduced elements, or of kept ones,
  // which are columns. Others are merged where one steps through the other.
  void find_axes(const std::vector<bool>& reduced) {
    const std::vector<int64_t> strides = ir::contiguous_strides(from_.shape());
    for (size_t axis = 0; axis < reduced.size(); ++axis) {
      const Axis each{from_.shape()[axis], strides[axis]};
      if (each.extent == 1) continue;
      Axes& axes = reduced[axis] ? window_ : kept_;
      if (!axes.empty() && axes.back().stride == each.extent * each.stride)
        axes.back() = {axes.back().extent * each.extent, each.stride};
      else
        axes.push_back(each);
      columns_ = !reduced[axis];
    }
    Axes& inner = columns_ ? kept_ : window_;
    if (inner.empty()) return;
    run_ = inner.back().extent;
    inner.pop_back();
  }

  // Long runs, each in parts, however many there are: a result does not depend on how many.
  void run_parts(int64_t results, int threads) const {
    const int64_t parts = divide_up(run_, kTask);
    std::vector<double> room(results * parts);
    auto* totals = reinterpret_cast<std::byte*>(room.data());
    reducer_.start(totals, results * parts);
    ThreadPool::shared().run(threads, results * parts, [&](int64_t task) {
      const int64_t begin = task % parts * kTask;
      reduce_row(position(kept_, task / parts) + begin, std::min(kTask, run_ - begin),
                 total(totals, task));
    });
    for (int64_t result = 0; result < results; ++result) {
      std::byte* whole = total(totals, result * parts);
      for (int64_t part = 1; part < parts; ++part)
        reducer_.join(total(totals, result * parts + part), whole);
      store(result, 1, whole);
    }
  }

  void run_columns(int64_t depth, int threads) const {
    const int64_t wide = std::clamp<int64_t>(kTask / std::max<int64_t>(depth, 1), 64, kSome);
    const int64_t across = divide_up(run_, wide);
    ThreadPool::shared().run(threads, elements_along(kept_) * across, [&](int64_t task) {
      Totals totals;
      const int64_t column = task % across * wide, count = std::min(wide, run_ - column);
      reducer_.start(totals.bytes, count);
      for_each(window_, position(kept_, task / across) + column, [&](int64_t at) {
        alignas(64) std::byte lanes[kSome * sizeof(double)];
        reducer_.columns(lanes_at(at, count, lanes), count, totals.bytes);
      });
      store(task / across * run_ + column, count, totals.bytes);
    });
  }

  std::byte* total(std::byte* totals, int64_t index) const {
    return totals + static_cast<size_t>(index) * reducer_.total_bytes;
  }

  void reduce_row(int64_t at, int64_t count, std::byte* total) const {
    const auto reduce = ordered_ ? reducer_.ordered_row : reducer_.row;
    if (!load_) return reduce(lanes_at(at, count, nullptr), count, total);
    alignas(64) std::byte lanes[kSome * sizeof(double)];
    for (int64_t done = 0; done < count; done += kSome) {
      const int64_t some = std::min(kSome, count - done);
      reduce(lanes_at(at + done, some, lanes), some, total);
    }
  }

  // Elements as lanes: in place, or converted to `lanes`.
  const std::byte* lanes_at(int64_t at, int64_t count, std::byte* lanes) const {
    const std::byte* elements = from_.data() + at * ir::size_of(from_.dtype());
    if (!load_) return elements;
    load_({.out = lanes, .in = {elements}, .count = static_cast<size_t>(count)});
    return lanes;
  }

  void store(int64_t first, int64_t count, const std::byte* totals) const {
    alignas(64) std::byte lanes[kSome * sizeof(double)];
    reducer_.finish(totals, count, divisor_, lanes);
    std::byte* to = to_.data() + first * ir::size_of(to_.dtype());
    store_kernel(to_.dtype())({.out = to, .in = {lanes}, .count = static_cast<size_t>(count)});
  }

  const ir::Tensor& from_;
  ir::Tensor& to_;
  const Lane lane_;
  const Reducer& reducer_;
  const bool ordered_;
  const Kernel load_;  // nullptr: elements have the form of lanes
  Axes kept_, window_;
  int64_t run_ = 1;
  bool columns_ = false;  // the run is of kept elements
  double divisor_ = 1;
};

}  // namespace

void reduce(Op op, const ir::Tensor& from, const std::vector<bool>& reduced, ir::Tensor& to,
            ir::Mode mode, int threads) {
  Reduction(op, from, reduced, to, mode).run(threads);
}

TileReduction::TileReduction(Op op, ir::DType from, double count, ir::Mode mode, ir::Tensor& to)
    : reducer_(reducer(op == Op::Mean ? Op::Sum : op, lane_of(from))),
      ordered_(is_ordered(op, lane_of(from), mode)),
      width_(ir::size_of(from)),
      divisor_(op == Op::Mean ? count : 1),
      to_(to) {
  ATTACCA_CHECK(has_lanes(from), "a tile of other elements than lanes");
}

std::byte* TileReduction::total(std::byte* totals, int64_t index) const {
  return totals + static_cast<size_t>(index) * reducer_.total_bytes;
}

void TileReduction::store(const std::byte* totals, int64_t count, int64_t first) const {
  alignas(64) std::byte lanes[kSome * sizeof(double)];
  for (int64_t done = 0; done < count; done += kSome) {
    const int64_t some = std::min(kSome, count - done);
    reducer_.finish(totals + static_cast<size_t>(done) * reducer_.total_bytes, some, divisor_,
                    lanes);
    std::byte* to = to_.data() + (first + done) * ir::size_of(to_.dtype());
    store_kernel(to_.dtype())({.out = to, .in = {lanes}, .count = static_cast<size_t>(some)});
  }
}

RowReduction::RowReduction(Op op, ir::DType from, int64_t rows, int64_t columns, int64_t blocks,
                           ir::Mode mode, ir::Tensor& to)
    : TileReduction(op, from, static_cast<double>(columns), mode, to),
      rows_(rows),
      blocks_(blocks),
      room_(static_cast<size_t>(rows * blocks)) {
  ATTACCA_CHECK(blocks == 1 || !ordered_, "an ordered sum of parts of a row");
  reducer_.start(room_.data(), room_.size());
}

void RowReduction::add(const ReducedTile& tile, int64_t block) {
  auto* totals = reinterpret_cast<std::byte*>(room_.data());
  const auto reduce = ordered_ ? reducer_.ordered_row : reducer_.row;
  for (int64_t row = 0; row < tile.rows; ++row)
    reduce(tile.values + row * tile.row_stride * width_, static_cast<size_t>(tile.columns),
           total(totals, (tile.row0 + row) * blocks_ + block));
}

void RowReduction::finish() {
  auto* totals = reinterpret_cast<std::byte*>(room_.data());
  for (int64_t row = 0; row < rows_; ++row) {
    std::byte* whole = total(totals, row * blocks_);
    for (int64_t block = 1; block < blocks_; ++block)
      reducer_.join(total(totals, row * blocks_ + block), whole);
    if (row > 0 && blocks_ > 1) std::memcpy(total(totals, row), whole, reducer_.total_bytes);
  }
  store(totals, rows_, 0);
}

BatchReduction::BatchReduction(Op op, ir::DType from, int64_t matrices, int64_t columns,
                               ir::Mode mode, ir::Tensor& to)
    : TileReduction(op, from, static_cast<double>(matrices), mode, to), columns_(columns) {}

void BatchReduction::start(int64_t rows, int64_t columns, Totals& totals) const {
  totals.resize(std::max(totals.size(), static_cast<size_t>(rows * columns)));
  reducer_.start(totals.data(), static_cast<size_t>(rows * columns));
}

void BatchReduction::add(const ReducedTile& tile, Totals& totals) const {
  auto* at = reinterpret_cast<std::byte*>(totals.data());
  for (int64_t row = 0; row < tile.rows; ++row)
    reducer_.columns(tile.values + row * tile.row_stride * width_,
                     static_cast<size_t>(tile.columns), total(at, row * tile.columns));
}

void BatchReduction::finish(int64_t row0, int64_t rows, int64_t column0, int64_t columns,
                            const Totals& totals) const {
  auto* at = reinterpret_cast<std::byte*>(const_cast<double*>(totals.data()));
  for (int64_t row = 0; row < rows; ++row)
    store(total(at, row * columns), columns, (row0 + row) * columns_ + column0);
}

}  // namespace attacca::run
