// A value of the graph with what is known of its error, and the arithmetic of single elements.
#pragma once

#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "ir/graph/graph.hpp"
#include "ir/graph/mode.hpp"
#include "ir/interpret/array.hpp"

namespace attacca::run::bound {

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();
// Independent errors add in quadrature; this many times the largest single rounding is never
// exceeded by their sum (Hoeffding's inequality: with probability 1 - 3e-8).
inline constexpr double kSpread = 6;

// What is known of an element. low <= every right result <= high; all NaN: certainly NaN.
// low = -inf and high = inf: nothing is known. `spread` bounds the error too, as the size of a
// random error of many independent roundings: spreads add in quadrature.
struct Element {
  double value = 0, low = 0, high = 0, spread = 0;

  static Element exact(double x) { return {x, x, x, 0}; }
  static Element unknown(double x) { return {x, -kInfinity, kInfinity, kInfinity}; }
  bool is_unknown() const { return low == -kInfinity && high == kInfinity; }
  bool is_exact() const { return spread == 0; }
  // The larger deviation; 0 if the value is exact, or certainly infinite or NaN.
  double error() const {
    return is_exact() ? 0 : std::isfinite(value) ? std::fmax(high - value, value - low) : kInfinity;
  }
};

// The rounding of a dtype: relative to the value, at least `tiny`; beyond `largest` it overflows.
struct Rounding {
  double half_place, tiny, largest;
};
Rounding rounding_of(ir::DType dtype);
Element rounded(const Element& x, const Rounding& to);
// The element of a stored value: in f8e4m3, which has no infinity, what overflows becomes NaN.
Element stored(const Element& x, ir::DType dtype);

// The element of an elementwise node from its operands'.
Element elementwise(const ir::Graph& graph, const ir::Node& node, std::span<const Element> x);
// The element of a cast between dtypes.
Element converted(const Element& x, ir::DType from, ir::DType to, bool saturate);

struct Range {
  explicit Range(int64_t count) : low(static_cast<size_t>(count)), high(low), spread(low) {}
  std::vector<double> low, high, spread;
};

struct Value {
  ir::Array value;                   // numbers or integers, unless `source` holds them
  std::optional<ir::Tensor> source;  // of exact inputs: `value` is the view of it
  std::shared_ptr<Range> range;      // at the positions of `value`; null: exact

  double number(int64_t at) const { return source ? source->number_at(at) : value.number(at); }
  Element at(int64_t position) const {
    const double x = number(position);
    if (!range) return Element::exact(x);
    const auto i = static_cast<size_t>(position);
    return {x, range->low[i], range->high[i], range->spread[i]};
  }
};
// Copies the numbers if they are a view of a source.
Value materialised(const Value& x);

// A dense value under construction.
class Builder {
 public:
  Builder(std::vector<int64_t> extents, bool integer);
  int64_t size() const { return value_.size(); }
  void set(int64_t at, const Element& x);
  void set_integer(int64_t at, int64_t exact);
  Value finish();

 private:
  ir::Array value_;
  std::shared_ptr<Range> range_;
};

// Sums: products of matrices, and sum and mean over axes.
Value product(const ir::Node& node, const Value& a, const Value& b, std::vector<int64_t> extents);
Value grouped_product(const ir::Node& node, const Value& x, const Value& w,
                      const ir::Array& offsets, std::vector<int64_t> extents);
Value reduction(const ir::Node& node, const Value& x, std::vector<int64_t> extents);
// The value of a scatter_add: `rows` are those of x to which each row of the updates is added, and
// each sum is rounded to `sums`.
Value added_rows(const Value& x, const Value& updates, const std::vector<int64_t>& rows,
                 ir::DType sums);

}  // namespace attacca::run::bound
