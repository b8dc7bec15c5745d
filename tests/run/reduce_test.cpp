// Reductions against the interpreter: in eager mode bit for bit, in fp32 mode sums within their
// rounding, extrema bit for bit. Every instruction set, lane type and way through the axes.
#include "run/cpu/reduce.hpp"

#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "fmt/format.h"
#include "gtest/gtest.h"

#include "ir/interpret/interpreter.hpp"
#include "targets.hpp"

namespace attacca::run {
namespace {

using ir::DType;
using ir::Mode;
using ir::Op;
using ir::Tensor;

struct Case {
  std::vector<int64_t> shape, axes;
};

// Rows, columns, both, none; runs shorter and longer than vectors, conversions and tasks.
const Case kCases[] = {
    {{3, 5}, {1}},           {{3, 5}, {0}},           {{3, 5}, {0, 1}},
    {{1, 1}, {1}},           {{7, 1}, {1}},           {{7, 1}, {0}},
    {{4, 1037}, {1}},        {{1037, 4}, {0}},        {{5, 700}, {0}},
    {{2, 3, 4, 33}, {1, 3}}, {{2, 3, 4, 33}, {0, 2}}, {{2, 3, 4, 33}, {1, 2}},
    {{70000}, {0}},          {{2, 33000}, {1}},       {{3, 0}, {1}},
    {{0, 3}, {1}},           {{0, 3}, {0}},           {{}, {}},
    {{600, 2, 16}, {2}},     {{11000, 3}, {0}},
};
constexpr Op kOps[] = {Op::Sum, Op::Mean, Op::ReduceMax, Op::ReduceMin, Op::AMax};
constexpr DType kDTypes[] = {DType::F32,    DType::F64, DType::F16, DType::BF16,
                             DType::F8E4M3, DType::S32, DType::S64};

// kind 0: ordinary numbers; 1: zeros of both signs and numbers of one sign; 2: also NaN and
// infinities.
double draw(int kind, std::mt19937& random) {
  const auto pick = random() % 64;
  if (kind == 1) return pick < 8 ? 0.0 : pick < 16 ? -0.0 : -static_cast<double>(pick % 2);
  if (kind == 2 && pick == 0) return std::numeric_limits<double>::quiet_NaN();
  if (kind == 2 && pick < 3) return pick == 1 ? INFINITY : -INFINITY;
  return std::normal_distribution<double>()(random);
}

Tensor tensor_of(DType dtype, const std::vector<int64_t>& shape, int kind, std::mt19937& random) {
  Tensor tensor = *Tensor::make(dtype, shape);
  for (int64_t i = 0; i < tensor.size(); ++i) {
    if (ir::is_float(dtype))
      tensor.set_number(i, draw(kind, random));
    else
      tensor.set_integer(i, static_cast<int64_t>(random()) * (kind == 2 ? 0x40000001 : 1));
  }
  return tensor;
}

bool same(const Tensor& a, const Tensor& b, int64_t i) {
  if (!ir::is_float(a.dtype())) return a.integer_at(i) == b.integer_at(i);
  const double x = a.number_at(i), y = b.number_at(i);
  return (x == y && std::signbit(x) == std::signbit(y)) || (std::isnan(x) && std::isnan(y));
}

// Sums of normal numbers in f64: what the order changes is far below one f32 or f64 rounding of
// the largest possible total.
double slack(Op op, const Tensor& from, DType dtype) {
  if (op != Op::Sum && op != Op::Mean) return 0;
  const double unit = dtype == DType::F64    ? 0x1p-47
                      : dtype == DType::F32  ? 0x1p-23
                      : dtype == DType::F16  ? 0x1p-10
                      : dtype == DType::BF16 ? 0x1p-7
                                             : 0x1p-2;
  return unit * 4 * std::sqrt(static_cast<double>(std::max<int64_t>(from.size(), 1)));
}

void check(Op op, DType dtype, const Case& given, int kind) {
  SCOPED_TRACE(fmt::format("{} of {}{} over {} kind {}", name(op), name(dtype),
                           ir::to_string(given.shape), ir::to_string(given.axes), kind));
  std::mt19937 random(7);
  const Tensor from = tensor_of(dtype, given.shape, kind, random);
  ir::Graph graph;
  const auto x = graph.input("x", {dtype, ir::Shape(given.shape.begin(), given.shape.end())});
  const auto y = graph.add(op, {*x}, ir::ReductionAttrs{given.axes, false});
  ASSERT_TRUE(y) << to_string(y.error());
  graph.add_output(*y, "y");
  for (const Mode mode : {Mode::Eager, Mode::Fp32}) {
    const auto precision = mode == Mode::Eager ? ir::Precision::Eager : ir::Precision::Fp32;
    const Tensor want = (*ir::interpret(graph, {{"x", from}}, {precision, {}}))[0];
    std::vector<bool> reduced(given.shape.size(), given.axes.empty());
    for (const int64_t axis : given.axes) reduced[axis] = true;
    const double near = mode == Mode::Fp32 ? slack(op, from, dtype) : 0;
    for_each_target([&] {
      Tensor one = *Tensor::make(dtype, want.shape());
      Tensor three = *Tensor::make(dtype, want.shape());
      reduce(op, from, reduced, one, mode, 1);
      reduce(op, from, reduced, three, mode, 3);
      ASSERT_EQ(std::memcmp(one.data(), three.data(), one.bytes()), 0) << "with several threads";
      for (int64_t i = 0; i < want.size(); ++i)
        ASSERT_TRUE(same(one, want, i) || std::fabs(one.number_at(i) - want.number_at(i)) <= near)
            << name(mode) << " element " << i << ": " << one.number_at(i) << ", not "
            << want.number_at(i);
    });
  }
}

TEST(Reduce, EveryOpDTypeAndShape) {
  for (const Op op : kOps)
    for (const DType dtype : kDTypes) {
      if (op == Op::Mean && !ir::is_float(dtype)) continue;
      for (const Case& each : kCases)
        for (const int kind : {0, 1, 2}) check(op, dtype, each, kind);
    }
}

}  // namespace
}  // namespace attacca::run
