// Windows that move over the axes behind [N, C]: of convolutions and pools.
#pragma once

#include "import/onnx/node.hpp"

namespace attacca::import {

// Along one axis.
struct Window {
  int64_t kernel, stride, dilation;
  ir::Dim before, after;  // elements around the axis
  ir::Dim extent, places;
  ir::Dim declared_after = after;  // less than `after` where ceil_mode= adds a place
};
using Windows = std::vector<Window>;

// One number an axis, or `otherwise` for each.
Result<std::vector<int64_t>> per_axis(Node& node, std::string_view name, size_t count,
                                      int64_t otherwise, int64_t least);
// How pads= are made: one of ONNX's four ways.
Result<std::string> auto_pad(Node& node);
// A kernel over x by strides=, dilations=, pads=, auto_pad= and ceil_mode=.
Result<Windows> read_windows(Node& node, const ir::Shape& x, const std::vector<int64_t>& kernel);

int64_t elements(const Windows& windows);  // of the kernel; at most INT64_MAX
// A kernel has so many elements at most, each of which is a slice of the input.
Status check_elements(const Windows& windows);
ir::Shape places(const Windows& windows);
// x with `border`, a scalar, around the windows' axes.
Expr surrounded(Node& node, Expr x, const Expr& border, const Windows& windows);
// The element `at` of each window over x, which is surrounded.
Expr under(Node& node, const Expr& x, const Windows& windows, int64_t at);

}  // namespace attacca::import
