// MaxPool and AveragePool: the extremes, or sums, of slices of the input.
#include <limits>

#include "fmt/format.h"

#include "import/onnx/ops.hpp"
#include "import/onnx/products/windows.hpp"

namespace attacca::import {
namespace {

using ir::DType;
using ir::Op;
using ir::Shape;
using ir::Value;

struct Pool {
  Expr x;
  Shape shape;
  Windows windows;
};

Result<Pool> read_pool(Node& node) {
  ATTACCA_TRY(const Value x, node.input(0));
  const Shape shape = node.shape(x);
  const auto kernel = node.integer_list("kernel_shape");
  if (shape.size() < 3 || !kernel || kernel->size() != shape.size() - 2)
    return fail(
        fmt::format("x of shape {} without a kernel_shape for its axes", ir::to_string(shape)), {},
        "give [N, C, axes...] and a number for each axis");
  ATTACCA_TRY(const auto extents, per_axis(node, "kernel_shape", kernel->size(), 1, 1));
  ATTACCA_TRY(Windows windows, read_windows(node, shape, extents));
  return Pool{node.expr(x), shape, std::move(windows)};
}

// All elements of each window, joined by the op.
Expr over_windows(Node& node, Op op, const Expr& x, const Windows& windows) {
  Expr result = under(node, x, windows, 0);
  for (int64_t at = 1; at < elements(windows); ++at)
    result = emit(op, std::vector<Expr>{result, under(node, x, windows, at)});
  return result;
}

double lowest(DType dtype) {
  if (dtype == DType::S8) return std::numeric_limits<int8_t>::min();
  if (dtype == DType::U8) return 0;
  return -std::numeric_limits<double>::infinity();
}

bool has_border(const Windows& windows) {
  for (const Window& window : windows)
    if (!window.before.is(0) || !window.after.is(0)) return true;
  return false;
}

// x with what pads= declares, which then counts as part of it.
void include_pads(Node& node, Pool& pool) {
  Windows declared = pool.windows;
  for (Window& window : declared) window.after = window.declared_after;
  pool.x = surrounded(node, pool.x, scalar_like(pool.x, 0), declared);
  for (size_t i = 0; i < declared.size(); ++i) {
    Window& window = pool.windows[i];
    window.extent = window.extent + window.before + window.declared_after;
    window.after = window.after - window.declared_after;
    window.before = window.declared_after = 0;
    pool.shape[i + 2] = window.extent;
  }
}

// How many elements of x each window meets.
Expr counts(Node& node, const Pool& pool) {
  const Expr one = node.expr(node.graph().literal(1, DType::F32));
  if (!has_border(pool.windows)) return one * static_cast<double>(elements(pool.windows));
  Shape shape = pool.shape;
  shape[0] = shape[1] = 1;
  const Expr ones = surrounded(node, broadcast_to(one, shape), scalar_like(one, 0), pool.windows);
  return folded(over_windows(node, Op::Add, ones, pool.windows));
}

}  // namespace

Result<Outputs> max_pool(Node& node) {
  if (node.wants(1))
    return fail("Indices (output 1) of MaxPool are not supported", {},
                "export the model without them, or run the file with ONNX Runtime");
  ATTACCA_TRY(const Pool pool, read_pool(node));
  const DType dtype = node.dtype(*pool.x.value);
  if (!ir::is_float(dtype) && !ir::is_byte(dtype))
    return fail(fmt::format("a pool of {}", ir::name(dtype)), {}, "cast it to float");
  const bool bytes = ir::is_byte(dtype);  // compared in s32
  const Expr x = bytes ? cast(pool.x, DType::S32) : pool.x;
  const Expr wide = surrounded(node, x, scalar_like(x, lowest(dtype)), pool.windows);
  return cast(over_windows(node, Op::Max, wide, pool.windows), dtype);
}

// Sums of narrow floats are in f32.
Result<Outputs> average_pool(Node& node) {
  ATTACCA_TRY(Pool pool, read_pool(node));
  const DType dtype = node.dtype(*pool.x.value);
  const DType in = dtype == DType::F64 ? dtype : DType::F32;
  pool.x = cast(pool.x, in);
  if (node.integer("count_include_pad", 0) != 0) include_pads(node, pool);
  const Expr wide = surrounded(node, pool.x, scalar_like(pool.x, 0), pool.windows);
  const Expr sum = over_windows(node, Op::Add, wide, pool.windows);
  return cast(sum / cast(counts(node, pool), in), dtype);
}

Result<Outputs> global_pool(Node& node) {
  ATTACCA_TRY(const Value x, node.input(0));
  if (node.rank(x) < 3) return fail("global pooling needs spatial axes");
  return reduce(node.op(), node.expr(x), axes_from(2, node.rank(x)), true);
}

}  // namespace attacca::import
