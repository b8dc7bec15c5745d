// Convolutions as matrix products: of the weights with the input itself where the kernel is one
// element, else with the patches under the kernel, which slices of the input make.
#include <algorithm>

#include "fmt/format.h"

#include "import/onnx/ops.hpp"
#include "import/onnx/products/linear.hpp"
#include "import/onnx/products/windows.hpp"
#include "ir/graph/size_functions.hpp"

namespace attacca::import {
namespace {

using ir::Dim;
using ir::DType;
using ir::Op;
using ir::Shape;
using ir::Value;

struct Convolution {
  Expr x, weights;
  Dim batch;
  int64_t channels, groups, filters;  // channels: of a group
  Windows windows;
  Expr border;  // around x: a zero
  std::optional<Expr> bias = {};
  // Of bytes the product is in s32. Zero points: of x a scalar, of weights also one a filter.
  bool bytes = false;
  std::optional<Value> zero_x = {}, zero_weights = {};
};

struct Inputs {
  size_t x, weights;
};

Result<Convolution> read_convolution(Node& node, const Inputs& at) {
  ATTACCA_TRY(const Value x, node.input(at.x));
  ATTACCA_TRY(const Value weights, node.input(at.weights));
  const Shape shape = node.shape(x), kernel = node.shape(weights);
  if (shape.size() < 3 || kernel.size() != shape.size() || !ir::is_static(kernel))
    return fail(fmt::format("x of shape {} with weights of shape {}", ir::to_string(shape),
                            ir::to_string(kernel)),
                {}, "give [N, C, axes...] and [M, C / group, kernel...] of fixed sizes");
  const int64_t groups = node.integer("group", 1), filters = kernel[0].value();
  if (groups < 1 || groups > filters || filters % groups != 0 ||
      !(shape[1] == kernel[1] * Dim(groups)) || ir::element_count(kernel).is(0))
    return fail(fmt::format("{} groups for x of shape {} with weights of shape {}", groups,
                            ir::to_string(shape), ir::to_string(kernel)));
  std::vector<int64_t> own;
  for (size_t i = 2; i < kernel.size(); ++i) own.push_back(kernel[i].value());
  if (const auto given = node.integer_list("kernel_shape"); given && *given != own)
    return fail(
        fmt::format("kernel_shape is not that of weights of shape {}", ir::to_string(kernel)));
  ATTACCA_TRY(Windows windows, read_windows(node, shape, own));
  return Convolution{
      node.expr(x),       node.expr(weights),          shape[0], kernel[1].value(), groups, filters,
      std::move(windows), scalar_like(node.expr(x), 0)};
}

Status read_bias(Node& node, Convolution& of, size_t at) {
  if (!node.has(at)) return {};
  ATTACCA_TRY(const Value bias, node.input(at));
  if (!(node.shape(bias) == Shape{of.filters}))
    return fail(fmt::format("a bias of shape {} for {} filters", ir::to_string(node.shape(bias)),
                            of.filters));
  of.bias = node.expr(bias);
  return {};
}

// One number a filter in the shape that `filters` gives them; a scalar as it is.
Expr for_filters(Node& node, const Expr& x, const Shape& filters) {
  if (!x.value || ir::element_count(node.shape(*x.value)).is(1))
    return x.value ? folded(reshape(x, {})) : x;
  return folded(reshape(x, filters));
}

// The product of weights and patches in this order or, with `turned`, in the other one.
Expr product(Node& node, const Convolution& of, const Expr& weights, const Expr& patches,
             const Shape& filters, bool turned) {
  if (!of.bytes) return turned ? matmul(patches, weights) : matmul(weights, patches);
  for (const Expr* operand : {&weights, &patches})
    if (!operand->value) return *operand;
  QuantizedOperand a{*weights.value, of.zero_weights}, b{*patches.value, of.zero_x};
  if (a.zero) {
    const Expr zeros = for_filters(node, node.expr(*a.zero), filters);
    if (!zeros.value) return zeros;
    a.zero = *zeros.value;
  }
  const auto result = turned ? integer_product(node, b, a) : integer_product(node, a, b);
  return result ? *result : Expr{&node.graph(), tl::make_unexpected(result.error())};
}

// weights [M, K] @ patches [N, K, places], or the same for each group.
Expr by_weights(Node& node, const Convolution& of) {
  const int64_t kernel = elements(of.windows), depth = of.channels * kernel;
  const int64_t filters = of.filters / of.groups;
  const Dim count = ir::element_count(places(of.windows));
  const Expr x = surrounded(node, of.x, of.border, of.windows);
  const bool grouped = of.groups > 1;
  const auto shaped = [&](Shape shape) {
    if (grouped) shape.insert(shape.begin() + 1, of.groups);
    return shape;
  };
  std::vector<Expr> parts;
  for (int64_t at = 0; at < kernel; ++at)
    parts.push_back(
        reshape(under(node, x, of.windows, at), shaped({of.batch, of.channels, 1, count})));
  const Expr patches = reshape(parts.size() == 1 ? parts[0] : concat(parts, grouped ? 3 : 2),
                               shaped({of.batch, depth, count}));
  const Expr weights = folded(
      reshape(of.weights, grouped ? Shape{of.groups, filters, depth} : Shape{filters, depth}));
  const Shape columns = grouped ? Shape{of.groups, filters, 1} : Shape{filters, 1};
  Expr y = product(node, of, weights, patches, columns, false);
  if (of.bias) y = y + folded(reshape(*of.bias, columns));
  return y;
}

// Whether the patches are next to each other and fill the input, up to a rest at the end.
bool is_cut_into_patches(const Convolution& of) {
  return of.groups == 1 && elements(of.windows) > 1 &&
         std::all_of(of.windows.begin(), of.windows.end(), [](const Window& window) {
           return window.kernel == window.stride && window.dilation == 1 && window.before.is(0) &&
                  window.after.is(0);
         });
}

// patches [N, places, K] @ weights [K, M], transposed: an image cut into patches is a list of them,
// and mostly becomes one again.
Expr by_patches(Node& node, const Convolution& of) {
  Expr x = of.x;
  Shape cut{of.batch, of.channels};
  std::vector<int64_t> order{0};
  for (size_t i = 0; i < of.windows.size(); ++i) {
    const Window& window = of.windows[i];
    const Dim used = window.places * window.kernel;
    if (!(used == window.extent))
      x.value = slice_axis(x, static_cast<int64_t>(i) + 2, 0, used).value;
    order.push_back(static_cast<int64_t>(cut.size()));
    cut.push_back(window.places);
    cut.push_back(window.kernel);
  }
  order.push_back(1);
  for (size_t i = 0; i < of.windows.size(); ++i) order.push_back(order[i + 1] + 1);
  const int64_t depth = of.channels * elements(of.windows);
  const Expr patches = reshape(permute(reshape(x, cut), order),
                               {of.batch, ir::element_count(places(of.windows)), depth});
  const Expr weights = emit(Op::Transpose, folded(reshape(of.weights, {of.filters, depth})));
  Expr y = product(node, of, weights, patches, {of.filters}, true);
  if (of.bias) y = y + *of.bias;
  return emit(Op::Transpose, y);
}

Expr convolved(Node& node, const Convolution& of) {
  const Expr y = is_cut_into_patches(of) ? by_patches(node, of) : by_weights(node, of);
  Shape shape = places(of.windows);
  shape.insert(shape.begin(), {of.batch, Dim(of.filters)});
  return reshape(y, std::move(shape));
}

// x with stride - 1 zeros between the elements of each axis.
Expr spread(Node& node, Expr x, const Windows& windows) {
  for (size_t i = 0; i < windows.size(); ++i) {
    const int64_t stride = windows[i].stride;
    if (stride == 1 || !x.value) continue;
    const auto axis = static_cast<int64_t>(i) + 2;
    Shape wide = node.shape(*x.value), split = wide;
    split.insert(split.begin() + axis + 1, 1);
    Shape zeros = split;
    zeros[i + 3] = stride - 1;
    const Dim extent = wide[i + 2];
    wide[i + 2] = extent * stride;
    const Expr with = concat({reshape(x, split), broadcast_to(scalar_like(x, 0), zeros)}, axis + 1);
    x.value = slice_axis(reshape(with, wide), axis, 0, (extent - 1) * stride + 1).value;
  }
  return x;
}

// weights [C, M / group, kernel...] as those of the convolution that undoes it: [M, C / group,
// kernel...], each kernel in reverse.
Expr reversed(const Expr& weights, const Shape& shape, int64_t groups) {
  const int64_t channels = shape[0].value() / groups, filters = shape[1].value();
  Shape cut{groups, channels, filters}, result{groups * filters, channels};
  std::vector<int64_t> order{0, 2, 1};
  for (size_t axis = 2; axis < shape.size(); ++axis) {
    order.push_back(static_cast<int64_t>(axis) + 1);
    cut.push_back(shape[axis]);
    result.push_back(shape[axis]);
  }
  Expr turned = reshape(permute(reshape(weights, cut), order), result);
  for (size_t axis = 2; axis < shape.size(); ++axis)
    turned = slice_axis(turned, static_cast<int64_t>(axis), shape[axis] - 1, -1, -1);
  return folded(turned);
}

// What the result loses at both ends of an axis; `full` is its extent with all.
struct Trimmed {
  Dim begin, end, extent;
};

Result<std::vector<Trimmed>> read_trims(Node& node, const Windows& windows, const Shape& full) {
  const size_t count = windows.size();
  ATTACCA_TRY(const std::string mode, auto_pad(node));
  const auto wanted = node.integer_list("output_shape");
  const bool same = mode == "SAME_UPPER" || mode == "SAME_LOWER";
  if (wanted && wanted->size() != count)
    return fail(fmt::format("{} extents of output_shape for {} axes", wanted->size(), count));
  std::vector<int64_t> pads(2 * count, 0);
  if (mode == "NOTSET" && !wanted) {
    ATTACCA_TRY(pads, per_axis(node, "pads", 2 * count, 0, 0));
  }
  std::vector<Trimmed> trims;
  for (size_t i = 0; i < count; ++i) {
    Dim begin = pads[i], end = pads[i + count];
    if (wanted || same) {
      const Dim extent = wanted ? Dim((*wanted)[i]) : windows[i].extent * windows[i].stride;
      const Dim total = full[i] - extent, half = ir::floor_div(total, 2);
      // The text's extent would need pads below 0; ONNX Runtime's result is shorter.
      if (same && total.is_static() && total.value() < 0)
        return fail(fmt::format("auto_pad={} of a stride beyond the kernel, whose {} results along "
                                "axis {} are fewer than {} * {}",
                                mode, ir::to_string(full[i]), i + 2,
                                ir::to_string(windows[i].extent), windows[i].stride),
                    {}, "give pads= or output_shape=");
      begin = mode == "SAME_UPPER" ? half : total - half;
      end = total - begin;
    }
    const Dim rest = full[i] - begin - end;
    for (const Dim& each : {begin, end, rest})
      if (each.is_static() && each.value() < 0)
        return fail(
            fmt::format("an extent of {} of {}", ir::to_string(rest), ir::to_string(full[i])));
    trims.push_back({begin, end, rest});
  }
  return trims;
}

Status check_floats(Node& node) {
  ATTACCA_TRY(const Value x, node.input(0));
  ATTACCA_TRY(const Value weights, node.input(1));
  if (ir::is_float(node.dtype(x)) && node.dtype(x) == node.dtype(weights)) return {};
  return fail(fmt::format("a convolution of {} by {}", ir::name(node.dtype(x)),
                          ir::name(node.dtype(weights))),
              {}, "give both the same float type");
}

// Zero points at these inputs. What is around x is x's.
Status read_zeros(Node& node, Convolution& of, const Inputs& zeros) {
  of.bytes = true;
  if (node.has(zeros.weights)) {
    ATTACCA_TRY(of.zero_weights, node.input(zeros.weights));
  }
  if (!node.has(zeros.x)) return {};
  ATTACCA_TRY(const Value zero, node.input(zeros.x));
  if (!ir::element_count(node.shape(zero)).is(1) || node.dtype(zero) != node.dtype(*of.x.value))
    return fail(fmt::format("a zero point {} of x", ir::to_string(node.graph().type(zero))), {},
                "give one number of x's type");
  of.border = folded(reshape(node.expr(zero), {}));
  ATTACCA_TRY(of.zero_x, of.border.value);
  return {};
}

}  // namespace

Result<Outputs> convolution(Node& node) {
  ATTACCA_TRY_VOID(check_floats(node));
  ATTACCA_TRY(Convolution of, read_convolution(node, {0, 1}));
  ATTACCA_TRY_VOID(read_bias(node, of, 2));
  return convolved(node, of);
}

// The convolution of x, zeros between its elements, by the reversed kernels.
Result<Outputs> conv_transpose(Node& node) {
  ATTACCA_TRY_VOID(check_floats(node));
  ATTACCA_TRY(const Value x, node.input(0));
  ATTACCA_TRY(const Value weights, node.input(1));
  const Shape shape = node.shape(x), kernel = node.shape(weights);
  const int64_t groups = node.integer("group", 1);
  if (shape.size() < 3 || kernel.size() != shape.size() || !ir::is_static(kernel) || groups < 1 ||
      !(shape[1] == kernel[0]) || kernel[0].value() % groups != 0 ||
      ir::element_count(kernel).is(0))
    return fail(fmt::format("{} groups for x of shape {} with weights of shape {}", groups,
                            ir::to_string(shape), ir::to_string(kernel)));
  const size_t count = shape.size() - 2;
  ATTACCA_TRY(const auto strides, per_axis(node, "strides", count, 1, 1));
  ATTACCA_TRY(const auto dilations, per_axis(node, "dilations", count, 1, 1));
  ATTACCA_TRY(const auto more, per_axis(node, "output_padding", count, 0, 0));
  const auto wanted = node.integer_list("output_shape").value_or(std::vector<int64_t>{});
  Windows windows;
  Shape full;
  for (size_t i = 0; i < count; ++i) {
    const int64_t extent = kernel[i + 2].value(), reach = dilations[i] * (extent - 1);
    Dim end = (shape[i + 2] - 1) * strides[i] + reach + more[i] + 1, after = reach + more[i];
    if (i < wanted.size()) {
      const Dim lacking = ir::maximum(wanted[i] - end, 0);
      end = end + lacking;
      after = after + lacking;
    }
    full.push_back(end);
    windows.push_back({extent, strides[i], dilations[i], reach, after, shape[i + 2], end});
  }
  ATTACCA_TRY_VOID(check_elements(windows));
  ATTACCA_TRY(const auto trims, read_trims(node, windows, full));
  const Expr wide = spread(node, node.expr(x), windows);
  for (Window& window : windows) window.stride = 1;
  Convolution of{wide,     reversed(node.expr(weights), kernel, groups),
                 shape[0], kernel[0].value() / groups,
                 groups,   groups * kernel[1].value(),
                 windows,  scalar_like(wide, 0)};
  ATTACCA_TRY_VOID(read_bias(node, of, 2));
  Expr y = by_weights(node, of);
  full.insert(full.begin(), {of.batch, Dim(of.filters)});
  y = reshape(y, full);
  for (size_t i = 0; i < count; ++i)
    if (!(trims[i].extent == full[i + 2]))
      y = slice_axis(y, static_cast<int64_t>(i) + 2, trims[i].begin,
                     trims[i].begin + trims[i].extent);
  return y;
}

Result<Outputs> conv_integer(Node& node) {
  ATTACCA_TRY(Convolution of, read_convolution(node, {0, 1}));
  ATTACCA_TRY_VOID(read_zeros(node, of, {2, 3}));
  return convolved(node, of);
}

// saturate(round(product * ((scale_x * scale_weights) / scale_y)) + zero_y), as QLinearMatMul.
Result<Outputs> qlinear_conv(Node& node) {
  ATTACCA_TRY(Convolution of, read_convolution(node, {0, 3}));
  ATTACCA_TRY_VOID(read_zeros(node, of, {2, 5}));
  ATTACCA_TRY_VOID(read_bias(node, of, 8));
  ATTACCA_TRY(const Value sum, convolved(node, of).value);
  ATTACCA_TRY(const Value zero, node.input(7));
  Shape filters(node.shape(sum).size(), 1);
  filters[1] = of.filters;
  const auto scale = [&](size_t at) { return for_filters(node, node.x(at), filters); };
  const Expr factor = folded(folded(scale(1) * scale(4)) / scale(6));
  const Expr rounded = emit(Op::Round, cast(node.expr(sum), DType::F32) * factor);
  const Expr shift = folded(cast(reshape(node.expr(zero), {}), DType::F32));
  return cast(is_zero(node, zero) ? rounded : rounded + shift, node.dtype(zero), true);
}

}  // namespace attacca::import
