// Sums of many terms: products of matrices, sum and mean.
#include <algorithm>

#include "ir/interpret/groups.hpp"
#include "run/check/bound_value.hpp"
#include "run/shared/extents.hpp"

namespace attacca::run::bound {
namespace {

using ir::Array;
using ir::DType;
using ir::Op;

// Partial sums of terms in random order are at most the result plus a few times the root of the
// sum of the terms' squares.
constexpr double kDrift = 4;

// What the bound of a sum of products needs of a row of a or a column of b.
struct Terms {
  double squares = 0, fourths = 0;                // of the values
  double error_squares = 0, spread_fourths = 0;   // of their possible errors
  double total = 0;                               // the sum of the values
  double offset = kInfinity, factor = kInfinity;  // the largest error that all can share
  bool unknown = false, nan = false, infinite = false;
  bool subnormal = false;  // matrix units may take one as 0, which an infinity makes NaN

  void add(const Element& x) {
    unknown |= x.is_unknown() || (!x.is_exact() && std::isinf(x.spread));
    nan |= std::isnan(x.value) && !x.is_unknown();
    infinite |= std::isinf(x.value);
    subnormal |= x.value != 0 && std::fabs(x.value) < 0x1p-126;
    if (!std::isfinite(x.value)) return;
    const double square = x.value * x.value, error = x.error();
    squares += square;
    fourths += square * square;
    total += x.value;
    error_squares += error * error;
    spread_fourths += x.spread * x.spread * x.spread * x.spread;
    offset = std::min(offset, x.spread);
    if (x.value != 0) factor = std::min(factor, x.spread / std::fabs(x.value));
  }
  double size() const { return std::sqrt(squares); }
  double error() const { return std::sqrt(error_squares); }
  double quartic() const { return std::sqrt(std::sqrt(fourths)); }
  double spread() const { return std::sqrt(std::sqrt(spread_fourths)); }
  // The error of the sum by errors that all terms share, such as those of a scale or a mean.
  double shared(double value, const Terms& other) const {
    if (spread_fourths == 0) return 0;
    return std::hypot(std::isfinite(factor) ? factor * value : 0,
                      std::isfinite(offset) ? offset * other.total : 0);
  }
};

struct Accumulation {
  double count;       // terms of a sum
  double half_place;  // of the accumulator; 0: exact
  double tiny;        // a term may be flushed below this
  double least;       // of a product in reduced precision, relative to its sizes
  double largest;     // of the accumulator
};

Accumulation accumulation(DType dtype, int64_t count, bool fast) {
  const auto terms = static_cast<double>(count);
  if (!ir::is_float(dtype)) return {terms, 0, 0, 0, kInfinity};
  const Rounding wide = rounding_of(dtype == DType::F64 ? DType::F64 : DType::F32);
  return {terms, wide.half_place, wide.tiny, fast ? 0x1p-12 : 0, wide.largest};
}

// The rounding errors of the accumulation: in the worst order, and in a random one.
double own_bound(const Accumulation& sum, double sizes) {
  return (sum.count + 2) * 2 * sum.half_place * sizes;
}
double own_spread(const Accumulation& sum, double value, double root) {
  return kSpread * (std::sqrt(sum.count) + 2) * sum.half_place * (std::fabs(value) + kDrift * root);
}
// What every term may lose: subnormal numbers, and bits of a product with fast=true.
double lost(const Accumulation& sum, const Terms& a, const Terms& b, double sizes) {
  const double flushed =
      std::sqrt(sum.count) * ((a.subnormal ? b.size() : 0) + (b.subnormal ? a.size() : 0));
  return (sum.count + flushed) * sum.tiny + sum.least * sizes;
}

Element within(double value, double error, double spread) {
  error = std::min(error, spread);
  if (error == 0) return Element::exact(value);
  if (!std::isfinite(error)) return Element::unknown(value);
  return {value, value - error, value + error, spread};
}

Element inner_product(double value, const Terms& a, const Terms& b, const Accumulation& sum) {
  if (a.nan || b.nan) return Element::exact(std::numeric_limits<double>::quiet_NaN());
  if (a.unknown || b.unknown) return Element::unknown(value);
  const double sizes = a.size() * b.size();
  if (sizes > sum.largest) return Element::unknown(value);
  const bool exact = a.spread_fourths == 0 && b.spread_fourths == 0 &&
                     !((a.infinite && b.subnormal) || (b.infinite && a.subnormal));
  if (!std::isfinite(value) || a.infinite || b.infinite)
    return exact ? Element::exact(value) : Element::unknown(value);
  const double bound = a.error() * b.size() + a.size() * b.error() + a.error() * b.error();
  const double both =
      std::hypot(a.spread() * b.quartic(), a.quartic() * b.spread(), a.spread() * b.spread());
  const double spread = std::hypot(both, a.shared(value, b), b.shared(value, a));
  const double flushed = lost(sum, a, b, sizes);
  return within(value, bound + own_bound(sum, sizes) + flushed,
                std::hypot(spread, own_spread(sum, value, a.quartic() * b.quartic())) + flushed);
}

// A matrix of a batch, read in place.
struct Matrix {
  const Value* x;
  int64_t offset, rows, columns, row_stride, column_stride;
  int64_t at(int64_t row, int64_t column) const {
    return offset + row * row_stride + column * column_stride;
  }
};

// Positions of the matrices of a batch, broadcast.
std::vector<int64_t> matrices(const Array& x, std::vector<int64_t> batch) {
  Array view = x;
  view.extents.resize(x.extents.size() - 2);
  view.strides.resize(x.extents.size() - 2);
  view = broadcast_view(view, batch);
  std::vector<int64_t> offsets;
  for_each_position(view, [&](int64_t at) { offsets.push_back(at); });
  return offsets;
}

Matrix matrix_of(const Value& x, int64_t offset) {
  const size_t rank = x.value.extents.size();
  return {&x,
          offset,
          x.value.extents[rank - 2],
          x.value.extents[rank - 1],
          x.value.strides[rank - 2],
          x.value.strides[rank - 1]};
}

// Columns [begin, end) as numbers for the reference, row-major, and their terms by row or column.
Array numbers_of(const Matrix& m, int64_t begin, int64_t end, bool by_row,
                 std::vector<Terms>& terms) {
  Array dense = Array::of_numbers({m.rows, end - begin});
  terms.assign(static_cast<size_t>(by_row ? m.rows : end - begin), {});
  double* next = dense.numbers->data();
  for (int64_t row = 0; row < m.rows; ++row)
    for (int64_t column = begin; column < end; ++column) {
      const Element x = m.x->at(m.at(row, column));
      *next++ = x.value;
      terms[static_cast<size_t>(by_row ? row : column - begin)].add(x);
    }
  return dense;
}

// One product, by panels of b's columns, so that b is never stored as f64 as a whole.
void multiply(const Matrix& a, const Matrix& b, const Accumulation& sum, int64_t first,
              Builder& result) {
  constexpr int64_t kPanel = 512;
  std::vector<Terms> rows, columns;
  const Array left = numbers_of(a, 0, a.columns, true, rows);
  for (int64_t begin = 0; begin < b.columns; begin += kPanel) {
    const int64_t end = std::min(b.columns, begin + kPanel);
    const Array right = numbers_of(b, begin, end, false, columns);
    const Array product = reference_matmul(left, right);
    const double* value = product.numbers->data();
    for (int64_t row = 0; row < a.rows; ++row)
      for (int64_t column = begin; column < end; ++column)
        result.set(first + row * b.columns + column,
                   inner_product(*value++, rows[static_cast<size_t>(row)],
                                 columns[static_cast<size_t>(column - begin)], sum));
  }
}

// Integers multiply exactly, wrapping.
Value whole_product(const ir::Node& node, const Value& a, const Value& b,
                    std::vector<int64_t> extents) {
  Builder result(std::move(extents), true);
  const Array exact = dense(reference_matmul(materialised(a).value, materialised(b).value));
  for (int64_t i = 0; i < result.size(); ++i)
    result.set_integer(i, ir::to_integer(node.type.dtype, exact.integer(i)));
  return result.finish();
}

// The terms of one sum.
struct Window {
  double bound = 0, spread_squares = 0, sizes = 0, squares = 0, value = 0;
  double offset = kInfinity, factor = kInfinity;
  bool unknown = false, inexact = false;

  void add(const Element& x) {
    unknown |= x.is_unknown() || (!x.is_exact() && std::isinf(x.spread));
    inexact |= !x.is_exact();
    value += x.value;
    if (!std::isfinite(x.value)) return;
    bound += x.error();
    spread_squares += x.spread * x.spread;
    sizes += std::fabs(x.value);
    squares += x.value * x.value;
    offset = std::min(offset, x.spread);
    if (x.value != 0) factor = std::min(factor, x.spread / std::fabs(x.value));
  }

  Element result(const Accumulation& sum, double divisor) const {
    const double mean = value / divisor;
    if (std::isnan(value) && !unknown) return Element::exact(mean);
    if (unknown) return Element::unknown(mean);
    if (sizes > sum.largest) return Element::unknown(mean);
    if (!std::isfinite(value)) return inexact ? Element::unknown(mean) : Element::exact(mean);
    const double root = std::sqrt(squares);
    double spread = std::sqrt(spread_squares);
    if (inexact)
      spread = std::hypot(spread, offset * sum.count, std::isfinite(factor) ? factor * value : 0);
    return within(mean, (bound + own_bound(sum, sizes)) / divisor,
                  std::hypot(spread, own_spread(sum, value, root)) / divisor);
  }
};

// The largest or smallest of the terms, by value or size. All are added, then spread.
struct Extreme {
  explicit Extreme(Op which) : op(which) {
    at = Element::exact(op == Op::ReduceMax ? -kInfinity : op == Op::ReduceMin ? kInfinity : 0);
  }
  void add(const Element& x) {
    unknown |= x.is_unknown();
    nan |= std::isnan(x.value) && !x.is_unknown();
    const Element term = compared(x);
    const auto best = [&](double p, double q) {
      return op == Op::ReduceMin ? std::min(p, q) : std::max(p, q);
    };
    at = {best(at.value, term.value), best(at.low, term.low), best(at.high, term.high), 0};
  }
  // A term that cannot be the extreme, such as a masked one, has no part in its error.
  void spread(const Element& x) {
    const Element term = compared(x);
    const bool may_be = op == Op::ReduceMin ? term.low <= at.high : term.high >= at.low;
    if (may_be) at.spread = std::max(at.spread, term.spread);
  }
  Element result() const {
    if (nan) return Element::exact(std::numeric_limits<double>::quiet_NaN());
    return unknown ? Element::unknown(at.value) : at;
  }

 private:
  Element compared(const Element& x) const {
    if (op != Op::AMax) return x;
    return {std::fabs(x.value), std::max({x.low, -x.high, 0.0}),
            std::max(std::fabs(x.low), std::fabs(x.high)), x.spread};
  }

  Op op;
  Element at;
  bool unknown = false, nan = false;
};

// Calls visit(result, position) for every element of x, results in row-major order.
template <class Visit>
void for_each_term(const Array& x, const std::vector<int64_t>& axes, Visit&& visit) {
  Array kept = x, window = x;
  for (Array* part : {&kept, &window}) {
    part->extents.clear();
    part->strides.clear();
  }
  for (size_t axis = 0; axis < x.extents.size(); ++axis) {
    const bool reduced = std::binary_search(axes.begin(), axes.end(), static_cast<int64_t>(axis));
    Array& part = reduced ? window : kept;
    part.extents.push_back(x.extents[axis]);
    part.strides.push_back(x.strides[axis]);
  }
  int64_t result = 0;
  for_each_position(kept, [&](int64_t base) {
    window.offset = base;
    for_each_position(window, [&](int64_t at) { visit(result, at); });
    ++result;
  });
}

}  // namespace

Value product(const ir::Node& node, const Value& a, const Value& b, std::vector<int64_t> extents) {
  if (!ir::is_float(node.type.dtype)) return whole_product(node, a, b, std::move(extents));
  const size_t rank = extents.size();
  const std::vector<int64_t> batch(extents.begin(), extents.end() - 2);
  const std::vector<int64_t> left = matrices(a.value, batch), right = matrices(b.value, batch);
  const Accumulation sum =
      accumulation(node.type.dtype, a.value.extents.back(), node.get<ir::MatMulAttrs>().fast);
  const int64_t size = extents[rank - 2] * extents[rank - 1];
  Builder result(std::move(extents), false);
  for (size_t i = 0; i < left.size() && size > 0; ++i)
    multiply(matrix_of(a, left[i]), matrix_of(b, right[i]), sum, static_cast<int64_t>(i) * size,
             result);
  return result.finish();
}

Value grouped_product(const ir::Node& node, const Value& x, const Value& w,
                      const ir::Array& offsets, std::vector<int64_t> extents) {
  const int64_t rows = extents[0], columns = extents[1];
  if (!ir::is_float(node.type.dtype)) {
    Builder result(std::move(extents), true);
    const Array exact =
        ir::reference_grouped_matmul(materialised(x).value, materialised(w).value, offsets);
    for (int64_t i = 0; i < result.size(); ++i)
      result.set_integer(i, ir::to_integer(node.type.dtype, exact.integer(i)));
    return result.finish();
  }
  const Accumulation sum = accumulation(node.type.dtype, x.value.extents[1], false);
  Builder result(std::move(extents), false);
  int64_t begin = 0, group = 0;
  for (const int64_t end : ir::group_ends(offsets, rows)) {
    Matrix part = matrix_of(x, x.value.offset + begin * x.value.strides[0]);
    part.rows = end - begin;
    const Matrix own = matrix_of(w, w.value.offset + group * w.value.strides[0]);
    if (part.rows * columns > 0) multiply(part, own, sum, begin * columns, result);
    begin = end;
    ++group;
  }
  for (int64_t i = begin * columns; i < rows * columns; ++i) result.set(i, Element::exact(0));
  return result.finish();
}

Value reduction(const ir::Node& node, const Value& x, std::vector<int64_t> extents) {
  if (x.value.is_integer() && !x.range) {
    Builder result(extents, true);
    const Array exact = reduced(node.op, x.value, node.get<ir::ReductionAttrs>().axes, extents);
    for (int64_t i = 0; i < result.size(); ++i)
      result.set_integer(i, ir::to_integer(node.type.dtype, exact.integer(i)));
    return result.finish();
  }
  const bool integer = !ir::is_float(node.type.dtype);
  Builder result(extents, integer);
  const int64_t results = count_of(extents);
  const auto count = results == 0 ? 0 : count_of(x.value.extents) / results;
  if (node.op == Op::Sum || node.op == Op::Mean) {
    const Accumulation sum = accumulation(node.type.dtype, count, false);
    std::vector<Window> windows(static_cast<size_t>(results));
    for_each_term(x.value, node.get<ir::ReductionAttrs>().axes,
                  [&](int64_t i, int64_t at) { windows[static_cast<size_t>(i)].add(x.at(at)); });
    const double divisor = node.op == Op::Mean ? static_cast<double>(count) : 1;
    for (int64_t i = 0; i < results; ++i)
      result.set(i, windows[static_cast<size_t>(i)].result(sum, divisor));
  } else {
    std::vector<Extreme> extremes(static_cast<size_t>(results), Extreme(node.op));
    for (const auto visit : {&Extreme::add, &Extreme::spread})
      for_each_term(x.value, node.get<ir::ReductionAttrs>().axes, [&](int64_t i, int64_t at) {
        (extremes[static_cast<size_t>(i)].*visit)(x.at(at));
      });
    for (int64_t i = 0; i < results; ++i) result.set(i, extremes[static_cast<size_t>(i)].result());
  }
  return result.finish();
}

Value added_rows(const Value& x, const Value& updates, const std::vector<int64_t>& rows,
                 DType sums) {
  const int64_t extent = x.value.extents[0];
  const int64_t width = extent == 0 ? 0 : x.value.size() / extent;
  std::vector<Window> windows(static_cast<size_t>(extent * width));
  std::vector<int64_t> counts(static_cast<size_t>(extent), 1);
  int64_t next = 0;
  for_each_position(x.value, [&](int64_t at) { windows[next++].add(x.at(at)); });
  next = 0;
  for_each_position(updates.value, [&](int64_t at) {
    const int64_t row = rows[static_cast<size_t>(next / width)];
    counts[static_cast<size_t>(row)] += next % width == 0;
    windows[static_cast<size_t>(row * width + next++ % width)].add(updates.at(at));
  });
  const bool real = ir::is_float(sums);
  const Rounding rounding = real ? rounding_of(sums) : Rounding{0, 0, kInfinity};
  Builder result(x.value.extents, !real);
  for (int64_t i = 0; i < result.size(); ++i) {
    const auto count = static_cast<double>(counts[static_cast<size_t>(i / width)]);
    const Accumulation sum{count, rounding.half_place, rounding.tiny, 0, rounding.largest};
    result.set(i, windows[static_cast<size_t>(i)].result(sum, 1));
  }
  return result.finish();
}

}  // namespace attacca::run::bound
