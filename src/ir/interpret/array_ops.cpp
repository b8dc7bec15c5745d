#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "fmt/format.h"

#include "ir/graph/semantics.hpp"
#include "ir/interpret/array.hpp"
#include "support/check.hpp"

namespace attacca::ir {
namespace {

Array like(const Array& x, std::vector<int64_t> extents) {
  return x.is_integer() ? Array::of_integers(std::move(extents))
                        : Array::of_numbers(std::move(extents));
}

void copy_element(const Array& from, int64_t at, Array& to, int64_t target) {
  if (from.is_integer())
    (*to.integers)[target] = (*from.integers)[at];
  else
    (*to.numbers)[target] = (*from.numbers)[at];
}

double fold_numbers(Op op, const Array& window) {
  double total = op == Op::ReduceMax ? -sem::kInfinity : op == Op::ReduceMin ? sem::kInfinity : 0.0;
  int64_t count = 0;
  for_each_position(window, [&](int64_t at) {
    const double v = op == Op::AMax ? std::fabs(window.number(at)) : window.number(at);
    ++count;
    if (op == Op::Sum || op == Op::Mean)
      total += v;
    else if (std::isnan(v) || std::isnan(total))
      total = std::numeric_limits<double>::quiet_NaN();
    else
      total = op == Op::ReduceMin ? std::min(total, v) : std::max(total, v);
  });
  return op == Op::Mean ? total / static_cast<double>(count) : total;
}

int64_t fold_integers(Op op, const Array& window) {
  using Limits = std::numeric_limits<int64_t>;
  int64_t total = op == Op::ReduceMax ? Limits::min() : op == Op::ReduceMin ? Limits::max() : 0;
  for_each_position(window, [&](int64_t at) {
    const int64_t v = window.integer(at);
    if (op == Op::Sum)
      total = sem::add(total, v);
    else if (op == Op::AMax)
      total = std::max(total, sem::abs(v));
    else
      total = op == Op::ReduceMin ? std::min(total, v) : std::max(total, v);
  });
  return total;
}

Array transposed(Array x) {
  const size_t rank = x.extents.size();
  std::swap(x.extents[rank - 1], x.extents[rank - 2]);
  std::swap(x.strides[rank - 1], x.strides[rank - 2]);
  return x;
}

Array permuted(const Array& x, const std::vector<int64_t>& axes) {
  Array view = x;
  for (size_t i = 0; i < axes.size(); ++i) {
    view.extents[i] = x.extents[axes[i]];
    view.strides[i] = x.strides[axes[i]];
  }
  return view;
}

Array reshaped(const Array& x, std::vector<int64_t> extents) {
  Array view = dense(x);
  view.strides = contiguous_strides(extents);
  view.extents = std::move(extents);
  return view;
}

Result<Array> sliced(Array x, const std::vector<SliceRange>& ranges, std::vector<int64_t> extents,
                     const SymbolValues& symbols) {
  for (size_t axis = 0; axis < ranges.size(); ++axis) {
    // begin must not be evaluated if the slice is empty: it can be -1 then.
    if (extents[axis] > 0) {
      ATTACCA_TRY(const int64_t begin, ranges[axis].begin.evaluate(symbols));
      x.offset += begin * x.strides[axis];
    }
    x.strides[axis] *= ranges[axis].step;
  }
  x.extents = std::move(extents);
  return x;
}

}  // namespace

Result<Array> viewed(const Node& node, Array x, std::vector<int64_t> extents,
                     const SymbolValues& symbols) {
  switch (node.op) {
    case Op::Transpose:
      return transposed(std::move(x));
    case Op::Permute:
      return permuted(x, node.get<PermuteAttrs>().axes);
    case Op::Reshape:
      return reshaped(x, std::move(extents));
    case Op::Broadcast:
      return broadcast_view(x, extents);
    default:
      ATTACCA_CHECK(node.op == Op::Slice, "an op that only chooses elements");
      return sliced(std::move(x), node.get<SliceAttrs>().ranges, std::move(extents), symbols);
  }
}

Array concatenated(const std::vector<Array>& parts, std::vector<int64_t> extents, int64_t axis) {
  Array result = like(parts[0], std::move(extents));
  int64_t begin = 0;
  for (const Array& part : parts) {
    Array window = result;
    window.extents = part.extents;
    window.offset = begin * result.strides[axis];
    begin += part.extents[axis];
    std::vector<int64_t> targets;
    for_each_position(window, [&](int64_t at) { targets.push_back(at); });
    size_t next = 0;
    for_each_position(part, [&](int64_t at) { copy_element(part, at, result, targets[next++]); });
  }
  return result;
}

Result<std::vector<int64_t>> indexed_rows(const Array& index, int64_t extent, Op op) {
  std::vector<int64_t> rows;
  Status status;
  for_each_position(index, [&](int64_t at) {
    const int64_t raw = index.integer(at);
    rows.push_back(raw < 0 ? raw + extent : raw);
    if (rows.back() < 0 || rows.back() >= extent)
      status = fail(fmt::format("{} index {} is outside an axis of {}", name(op), raw, extent), {},
                    "use indices inside the axis");
  });
  ATTACCA_TRY_VOID(status);
  return rows;
}

Result<Array> gathered(const Array& x, const Array& index, std::vector<int64_t> extents,
                       int64_t axis) {
  ATTACCA_TRY(const std::vector<int64_t> chosen, indexed_rows(index, x.extents[axis], Op::Gather));
  Array result = like(x, std::move(extents));
  // The result's axes: x's before `axis`, the index's, x's after it.
  Array outer = x, inner = x;
  outer.extents.resize(axis);
  outer.strides.resize(axis);
  inner.extents.erase(inner.extents.begin(), inner.extents.begin() + axis + 1);
  inner.strides.erase(inner.strides.begin(), inner.strides.begin() + axis + 1);
  int64_t next = 0;
  for_each_position(outer, [&](int64_t base) {
    for (const int64_t i : chosen) {
      inner.offset = base + i * x.strides[axis];
      for_each_position(inner, [&](int64_t at) { copy_element(x, at, result, next++); });
    }
  });
  return result;
}

Result<Array> scatter_sources(int64_t extent, const Array& index) {
  Array sources = arange(0, extent);
  int64_t next = extent;
  Status status;
  for_each_position(index, [&](int64_t at) {
    const int64_t raw = index.integer(at), row = raw < 0 ? raw + extent : raw;
    if (row < 0 || row >= extent)
      status = fail(fmt::format("scatter index {} is outside an axis of {}", raw, extent), {},
                    "use indices inside the axis");
    else
      (*sources.integers)[row] = next;
    ++next;
  });
  ATTACCA_TRY_VOID(status);
  return sources;
}

Result<Array> scattered(const Array& x, const Array& index, const Array& updates) {
  ATTACCA_TRY(const Array sources, scatter_sources(x.extents[0], index));
  std::vector<int64_t> rows = x.extents;
  rows[0] = index.size();
  const Array listed = reshaped(updates, rows);
  rows[0] += x.extents[0];
  return gathered(concatenated({x, listed}, rows, 0), sources, x.extents, 0);
}

Array argsorted(const Array& x, int64_t axis) {
  Array result = Array::of_integers(x.extents);
  Array from = x, to = result;
  const int64_t extent = x.extents[axis], from_stride = x.strides[axis],
                to_stride = result.strides[axis];
  from.extents[axis] = to.extents[axis] = std::min<int64_t>(extent, 1);
  std::vector<int64_t> targets, places(static_cast<size_t>(extent));
  for_each_position(to, [&](int64_t at) { targets.push_back(at); });
  size_t line = 0;
  for_each_position(from, [&](int64_t base) {
    const auto less = [&](int64_t a, int64_t b) {
      const int64_t first = base + a * from_stride, second = base + b * from_stride;
      if (x.is_integer()) return x.integer(first) < x.integer(second);
      const double left = x.number(first), right = x.number(second);
      return left < right || (std::isnan(right) && !std::isnan(left));
    };
    std::iota(places.begin(), places.end(), 0);
    std::stable_sort(places.begin(), places.end(), less);
    for (int64_t i = 0; i < extent; ++i)
      (*result.integers)[targets[line] + i * to_stride] = places[i];
    ++line;
  });
  return result;
}

Array arange(int64_t begin, int64_t count) {
  Array result = Array::of_integers({count});
  std::iota(result.integers->begin(), result.integers->end(), begin);
  return result;
}

Result<int64_t> first_of(const Node& arange, const SymbolValues& symbols) {
  const Dim& begin = arange.get<ShapeAttrs>().shape[0];
  // Dim::evaluate refuses negative results, as those of extents.
  if (const auto negated = (Dim(0) - begin).evaluate(symbols)) return -*negated;
  return begin.evaluate(symbols);
}

Array reduced(Op op, const Array& x, const std::vector<int64_t>& axes,
              std::vector<int64_t> extents) {
  Array kept = x, window = x;
  for (Array* part : {&kept, &window}) {
    part->extents.clear();
    part->strides.clear();
  }
  for (int64_t axis = 0; axis < static_cast<int64_t>(x.extents.size()); ++axis) {
    Array& part = std::binary_search(axes.begin(), axes.end(), axis) ? window : kept;
    part.extents.push_back(x.extents[axis]);
    part.strides.push_back(x.strides[axis]);
  }
  Array result = like(x, std::move(extents));
  int64_t next = 0;
  for_each_position(kept, [&](int64_t base) {
    window.offset = base;
    if (x.is_integer())
      (*result.integers)[next++] = fold_integers(op, window);
    else
      (*result.numbers)[next++] = fold_numbers(op, window);
  });
  return result;
}

}  // namespace attacca::ir
