#include "import/onnx/products/windows.hpp"

#include <algorithm>
#include <limits>

#include "fmt/format.h"

#include "ir/graph/size_functions.hpp"

namespace attacca::import {
namespace {

using ir::Dim;
using ir::Op;
using ir::Shape;

Dim reach(const Window& window) {
  return window.dilation * (window.kernel - 1) + 1;
}

// What is around an axis, and the places of the kernel along it.
Status place_window(Window& window, const std::string& mode, bool ceil) {
  if (mode == "SAME_UPPER" || mode == "SAME_LOWER") {
    window.places = ir::ceil_div(window.extent, window.stride);
    const Dim more =
        ir::maximum((window.places - 1) * window.stride + reach(window) - window.extent, 0);
    window.before = mode == "SAME_UPPER" ? ir::floor_div(more, 2) : ir::ceil_div(more, 2);
    window.after = window.declared_after = more - window.before;
    return {};
  }
  const Dim span = window.extent + window.before + window.after - reach(window);
  if (span.is_static() && span.value() < 0)
    return fail(fmt::format("a kernel that reaches over {} of {} elements",
                            ir::to_string(reach(window)),
                            ir::to_string(window.extent + window.before + window.after)));
  window.places = ir::floor_div(span, window.stride) + 1;
  if (!ceil) return {};
  // A further place begins on an element or before it.
  const Dim begun = ir::floor_div(window.extent + window.before - 1, window.stride) + 1;
  window.places = ir::minimum(ir::ceil_div(span, window.stride) + 1, begun);
  const Dim end = (window.places - 1) * window.stride + reach(window);
  window.after = ir::maximum(end - window.extent - window.before, window.after);
  return {};
}

}  // namespace

Result<std::vector<int64_t>> per_axis(Node& node, std::string_view name, size_t count,
                                      int64_t otherwise, int64_t least) {
  auto values = node.integer_list(name).value_or(std::vector<int64_t>(count, otherwise));
  constexpr int64_t kLimit = int64_t{1} << 31;
  const auto fits = [&](int64_t value) { return value >= least && value < kLimit; };
  if (values.size() != count || !std::all_of(values.begin(), values.end(), fits))
    return fail(fmt::format("{} must have {} numbers of {} or more", name, count, least));
  return values;
}

Result<std::string> auto_pad(Node& node) {
  std::string mode = node.text("auto_pad", "NOTSET");
  if (mode != "NOTSET" && mode != "VALID" && mode != "SAME_UPPER" && mode != "SAME_LOWER")
    return fail(fmt::format("auto_pad={} is not supported", mode), {},
                "use NOTSET, VALID, SAME_UPPER or SAME_LOWER");
  return mode;
}

Result<Windows> read_windows(Node& node, const Shape& x, const std::vector<int64_t>& kernel) {
  const size_t count = kernel.size();
  ATTACCA_TRY(const std::string mode, auto_pad(node));
  ATTACCA_TRY(const auto strides, per_axis(node, "strides", count, 1, 1));
  ATTACCA_TRY(const auto dilations, per_axis(node, "dilations", count, 1, 1));
  std::vector<int64_t> pads(2 * count, 0);
  if (mode == "NOTSET") {
    ATTACCA_TRY(pads, per_axis(node, "pads", 2 * count, 0, 0));
  }
  Windows windows;
  for (size_t i = 0; i < count; ++i) {
    Window& window = windows.emplace_back(
        Window{kernel[i], strides[i], dilations[i], pads[i], pads[i + count], x[i + 2], {}});
    ATTACCA_TRY_VOID(place_window(window, mode, node.integer("ceil_mode", 0) != 0));
  }
  ATTACCA_TRY_VOID(check_elements(windows));
  return windows;
}

int64_t elements(const Windows& windows) {
  Dim count = 1;
  for (const Window& window : windows) count = count * window.kernel;
  return count.maybe_value().value_or(std::numeric_limits<int64_t>::max());
}

Status check_elements(const Windows& windows) {
  constexpr int64_t kMost = 1024;
  if (elements(windows) <= kMost) return {};
  return fail(fmt::format("a kernel of {} elements, of which each is a slice of the input",
                          elements(windows)),
              {}, "run the file with ONNX Runtime");
}

Shape places(const Windows& windows) {
  Shape shape;
  for (const Window& window : windows) shape.push_back(window.places);
  return shape;
}

Expr surrounded(Node& node, Expr x, const Expr& border, const Windows& windows) {
  for (size_t i = 0; i < windows.size(); ++i) {
    std::vector<Expr> parts{x};
    const auto add = [&](const Dim& count, bool front) {
      if (count.is(0) || !x.value) return;
      Shape shape = node.shape(*x.value);
      shape[i + 2] = count;
      parts.insert(front ? parts.begin() : parts.end(), broadcast_to(border, std::move(shape)));
    };
    add(windows[i].before, true);
    add(windows[i].after, false);
    if (parts.size() > 1) x.value = concat(parts, static_cast<int64_t>(i) + 2).value;
  }
  return x;
}

Expr under(Node& node, const Expr& x, const Windows& windows, int64_t at) {
  if (!x.value) return x;
  const Shape shape = node.shape(*x.value);
  ir::SliceAttrs part;
  for (const Dim& extent : shape) part.ranges.push_back({0, extent, 1});
  bool whole = true;
  for (size_t i = windows.size(); i-- > 0;) {
    const Window& window = windows[i];
    const Dim begin = at % window.kernel * window.dilation;
    at /= window.kernel;
    const Dim end = begin + (window.places - 1) * window.stride + 1;
    whole = whole && window.stride == 1 && begin.is(0) && end == shape[i + 2];
    part.ranges[i + 2] = {begin, end, window.stride};
  }
  return whole ? x : emit(Op::Slice, std::vector<Expr>{x}, std::move(part));
}

}  // namespace attacca::import
