// Convolutions as matrix products: of the weights with the input itself where the kernel is one
// element, else with the patches under the kernel, which slices of the input make.
#include <algorithm>

#include "fmt/format.h"

#include "import/onnx/ops.hpp"
#include "ir/graph/size_functions.hpp"

namespace attacca::import {
namespace {

using ir::Dim;
using ir::Op;
using ir::Shape;
using ir::Value;

// Places in a kernel, each of which is a slice of the input.
constexpr int64_t kMostPlaces = 1024;

// One spatial axis.
struct Window {
  int64_t kernel, stride, dilation;
  Dim before, after;  // zeros
  Dim extent, places;
};

struct Convolution {
  Expr x, weights;
  Dim batch;
  int64_t channels, groups, filters;  // channels: of a group
  std::vector<Window> windows;
  std::optional<Expr> bias;

  int64_t kernel_places() const {
    int64_t count = 1;
    for (const Window& window : windows) count *= window.kernel;
    return count;
  }
  Shape places() const {
    Shape shape;
    for (const Window& window : windows) shape.push_back(window.places);
    return shape;
  }
};

// One number a spatial axis, or `otherwise` for each.
Result<std::vector<int64_t>> per_axis(Node& node, std::string_view name, size_t count,
                                      int64_t otherwise, int64_t least) {
  auto values = node.integer_list(name).value_or(std::vector<int64_t>(count, otherwise));
  constexpr int64_t kLimit = int64_t{1} << 31;
  const auto fits = [&](int64_t value) { return value >= least && value < kLimit; };
  if (values.size() != count || !std::all_of(values.begin(), values.end(), fits))
    return fail(fmt::format("{} must have {} numbers of {} or more", name, count, least));
  return values;
}

// The zeros around an axis, and the places of the kernel along it.
Status place_window(Window& window, const std::string& mode) {
  const Dim reach = window.dilation * (window.kernel - 1) + 1;
  if (mode == "SAME_UPPER" || mode == "SAME_LOWER") {
    window.places = ir::ceil_div(window.extent, window.stride);
    const Dim zeros = ir::maximum((window.places - 1) * window.stride + reach - window.extent, 0);
    window.before = mode == "SAME_UPPER" ? ir::floor_div(zeros, 2) : ir::ceil_div(zeros, 2);
    window.after = zeros - window.before;
    return {};
  }
  const Dim span = window.extent + window.before + window.after - reach;
  if (span.is_static() && span.value() < 0)
    return fail(fmt::format("a kernel that reaches over {} of {} elements", ir::to_string(reach),
                            ir::to_string(window.extent + window.before + window.after)));
  window.places = ir::floor_div(span, window.stride) + 1;
  return {};
}

Result<std::vector<Window>> read_windows(Node& node, const Shape& x, const Shape& weights) {
  const size_t count = x.size() - 2;
  std::vector<int64_t> own;
  for (size_t i = 0; i < count; ++i) own.push_back(weights[i + 2].value());
  if (const auto kernel = node.integer_list("kernel_shape"); kernel && *kernel != own)
    return fail(
        fmt::format("kernel_shape is not that of weights of shape {}", ir::to_string(weights)));
  const std::string mode = node.text("auto_pad", "NOTSET");
  if (mode != "NOTSET" && mode != "VALID" && mode != "SAME_UPPER" && mode != "SAME_LOWER")
    return fail(fmt::format("auto_pad={} is not supported", mode), {},
                "use NOTSET, VALID, SAME_UPPER or SAME_LOWER");
  ATTACCA_TRY(const auto strides, per_axis(node, "strides", count, 1, 1));
  ATTACCA_TRY(const auto dilations, per_axis(node, "dilations", count, 1, 1));
  std::vector<int64_t> pads(2 * count, 0);
  if (mode == "NOTSET") {
    ATTACCA_TRY(pads, per_axis(node, "pads", 2 * count, 0, 0));
  }
  std::vector<Window> windows;
  for (size_t i = 0; i < count; ++i) {
    Window& window = windows.emplace_back(
        Window{own[i], strides[i], dilations[i], pads[i], pads[i + count], x[i + 2], {}});
    ATTACCA_TRY_VOID(place_window(window, mode));
  }
  return windows;
}

Result<Convolution> read_convolution(Node& node) {
  ATTACCA_TRY(const Value x, node.input(0));
  ATTACCA_TRY(const Value weights, node.input(1));
  const Shape shape = node.shape(x), kernel = node.shape(weights);
  if (!ir::is_float(node.dtype(x)) || node.dtype(x) != node.dtype(weights))
    return fail(fmt::format("a convolution of {} by {}", ir::name(node.dtype(x)),
                            ir::name(node.dtype(weights))),
                {}, "give both the same float type");
  if (shape.size() < 3 || kernel.size() != shape.size() || !ir::is_static(kernel))
    return fail(fmt::format("x of shape {} with weights of shape {}", ir::to_string(shape),
                            ir::to_string(kernel)),
                {}, "give [N, C, axes...] and [M, C / group, kernel...] of fixed sizes");
  const int64_t groups = node.integer("group", 1), filters = kernel[0].value();
  if (groups < 1 || groups > filters || filters % groups != 0 ||
      !(shape[1] == kernel[1] * Dim(groups)) || ir::element_count(kernel).is(0))
    return fail(fmt::format("{} groups for x of shape {} with weights of shape {}", groups,
                            ir::to_string(shape), ir::to_string(kernel)));
  ATTACCA_TRY(std::vector<Window> windows, read_windows(node, shape, kernel));
  Convolution result{node.expr(x), node.expr(weights), shape[0], kernel[1].value(), groups,
                     filters,      std::move(windows), {}};
  if (result.kernel_places() > kMostPlaces)
    return fail(fmt::format("a kernel of {} elements, of which each is a slice of the input",
                            result.kernel_places()),
                {}, "run the file with ONNX Runtime");
  if (!node.has(2)) return result;
  ATTACCA_TRY(const Value bias, node.input(2));
  if (!(node.shape(bias) == Shape{filters}))
    return fail(
        fmt::format("a bias of shape {} for {} filters", ir::to_string(node.shape(bias)), filters));
  result.bias = node.expr(bias);
  return result;
}

// x with zeros around it.
Expr with_zeros(Node& node, const Convolution& of) {
  Expr x = of.x;
  for (size_t i = 0; i < of.windows.size(); ++i) {
    const auto axis = static_cast<int64_t>(i) + 2;
    std::vector<Expr> parts{x};
    const auto add = [&](const Dim& count, bool front) {
      if (count.is(0) || !x.value) return;
      Shape border = node.shape(*x.value);
      border[i + 2] = count;
      parts.insert(front ? parts.begin() : parts.end(),
                   broadcast_to(scalar_like(x, 0), std::move(border)));
    };
    add(of.windows[i].before, true);
    add(of.windows[i].after, false);
    x.value = parts.size() == 1 ? x.value : concat(parts, axis).value;
  }
  return x;
}

// What one element of the kernel meets.
Expr under(const Convolution& of, const Expr& x, int64_t place) {
  ir::SliceAttrs part{{{0, of.batch, 1}, {0, of.channels * of.groups, 1}}};
  bool whole = true;
  part.ranges.resize(of.windows.size() + 2);
  for (size_t i = of.windows.size(); i-- > 0;) {
    const Window& window = of.windows[i];
    const Dim begin = place % window.kernel * window.dilation;
    place /= window.kernel;
    const Dim end = begin + (window.places - 1) * window.stride + 1;
    whole = whole && window.stride == 1 && begin.is(0) &&
            end == window.extent + window.before + window.after;
    part.ranges[i + 2] = {begin, end, window.stride};
  }
  return whole ? x : emit(Op::Slice, std::vector<Expr>{x}, std::move(part));
}

// weights [M, K] @ patches [N, K, places], or the same for each group.
Expr by_weights(Node& node, const Convolution& of) {
  const int64_t kernel = of.kernel_places(), depth = of.channels * kernel;
  const int64_t filters = of.filters / of.groups;
  const Dim places = ir::element_count(of.places());
  const Expr x = with_zeros(node, of);
  const bool grouped = of.groups > 1;
  const auto shaped = [&](Shape shape) {
    if (grouped) shape.insert(shape.begin() + 1, of.groups);
    return shape;
  };
  std::vector<Expr> parts;
  for (int64_t place = 0; place < kernel; ++place)
    parts.push_back(reshape(under(of, x, place), shaped({of.batch, of.channels, 1, places})));
  const Expr patches = reshape(parts.size() == 1 ? parts[0] : concat(parts, grouped ? 3 : 2),
                               shaped({of.batch, depth, places}));
  const Expr weights = folded(
      reshape(of.weights, grouped ? Shape{of.groups, filters, depth} : Shape{filters, depth}));
  Expr y = matmul(weights, patches);
  if (of.bias)
    y = y + folded(reshape(*of.bias, grouped ? Shape{of.groups, filters, 1} : Shape{filters, 1}));
  return y;
}

// Whether the patches are next to each other and fill the input, up to a rest at the end.
bool is_cut_into_patches(const Convolution& of) {
  return of.groups == 1 && of.kernel_places() > 1 &&
         std::all_of(of.windows.begin(), of.windows.end(), [](const Window& window) {
           return window.kernel == window.stride && window.dilation == 1 && window.before.is(0) &&
                  window.after.is(0);
         });
}

// patches [N, places, K] @ weights [K, M], transposed: an image cut into patches is a list of them,
// and mostly becomes one again.
Expr by_patches(const Convolution& of) {
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
  const int64_t depth = of.channels * of.kernel_places();
  const Expr patches =
      reshape(permute(reshape(x, cut), order), {of.batch, ir::element_count(of.places()), depth});
  const Expr weights = folded(reshape(of.weights, {of.filters, depth}));
  Expr y = matmul(patches, emit(Op::Transpose, weights));
  if (of.bias) y = y + *of.bias;
  return emit(Op::Transpose, y);
}

}  // namespace

Result<Outputs> convolution(Node& node) {
  ATTACCA_TRY(const Convolution of, read_convolution(node));
  const Expr y = is_cut_into_patches(of) ? by_patches(of) : by_weights(node, of);
  Shape shape = of.places();
  shape.insert(shape.begin(), {of.batch, Dim(of.filters)});
  return reshape(y, std::move(shape));
}

}  // namespace attacca::import
