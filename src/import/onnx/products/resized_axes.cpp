#include "import/onnx/products/resized_axes.hpp"

#include <algorithm>
#include <cmath>

#include "fmt/format.h"

namespace attacca::import {
namespace {

using ir::Dim;
using ir::Shape;
using ir::Value;

// The floats at an input that is constant.
Result<std::vector<float>> floats(Node& node, size_t at, std::string_view what) {
  ATTACCA_TRY(const Value value, node.input(at));
  const auto tensor = fold_constant(node.graph(), value);
  if (!tensor || tensor->shape().size() > 1)
    return fail(fmt::format("{} must be a constant list of numbers", what), {},
                "store them as an initializer, or give sizes");
  std::vector<float> numbers;
  for (int64_t i = 0; i < tensor->size(); ++i)
    numbers.push_back(static_cast<float>(tensor->number_at(i)));
  return numbers;
}

bool has_elements(Node& node, size_t at) {
  if (!node.has(at)) return false;
  const auto value = node.input(at);
  return value && !ir::element_count(node.shape(*value)).is(0);
}

constexpr int64_t kMostRepeats = 64;

// The size to which a scale leads.
Result<Dim> scaled(size_t axis, const Dim& from, float scale, float (*rounded)(float)) {
  if (!(scale > 0))
    return fail(fmt::format("axis {} is scaled by {}", axis, scale), {}, "give a number above 0");
  if (from.is_static()) {
    const float size = rounded(scale * static_cast<float>(from.value()));
    if (scale == 1 || size <= kMostResized)
      return scale == 1 ? from : Dim(static_cast<int64_t>(size));
  } else if (scale == std::trunc(scale) && scale <= kMostRepeats) {
    return Dim(static_cast<int64_t>(scale)) * from;
  }
  return fail(fmt::format("axis {} of extent {} is scaled by {}", axis, to_string(from), scale), {},
              from.is_static() ? fmt::format("resize to at most {} elements", kMostResized)
                               : "give its size (--dim, in Python dims=)");
}

Result<ResizedAxis> by_scale(size_t axis, const Dim& from, float scale) {
  ATTACCA_TRY(Dim to, scaled(axis, from, scale, [](float x) { return std::floor(x); }));
  return ResizedAxis{axis, from, std::move(to), scale};
}

Result<ResizedAxis> by_size(size_t axis, const Dim& from, const Dim& to) {
  if (from.is_static() && to.is_static() && to.value() >= 0 && from.value() > 0)
    return ResizedAxis{axis, from, to,
                       static_cast<float>(to.value()) / static_cast<float>(from.value())};
  if (const int64_t factor = whole_factor(to, from); factor > 0)
    return ResizedAxis{axis, from, to, static_cast<float>(factor)};
  return tl::make_unexpected(unknown_extent({axis, from, to, 0}));
}

// Of keep_aspect_ratio_policy=: one scale for all axes, by which none is larger, or none smaller,
// than its size.
Status keep_ratio(std::vector<ResizedAxis>& axes, bool larger) {
  for (const ResizedAxis& by : axes)
    if (!by.from.is_static()) return tl::make_unexpected(unknown_extent(by));
  if (axes.empty()) return {};
  float scale = axes[0].scale;
  for (const ResizedAxis& by : axes)
    scale = larger ? std::max(scale, by.scale) : std::min(scale, by.scale);
  for (ResizedAxis& by : axes) {
    by.scale = scale;
    ATTACCA_TRY(by.to, scaled(by.axis, by.from, scale, [](float x) { return std::round(x); }));
  }
  return {};
}

// scales= of Upsample in opset 7.
std::vector<float> scales_attribute(const Node& node) {
  const auto* given = node.attribute("scales");
  return given ? std::vector<float>(given->floats().begin(), given->floats().end())
               : std::vector<float>();
}

}  // namespace

Error unknown_extent(const ResizedAxis& by) {
  return {
      fmt::format("axis {} of extent {} becomes {}", by.axis, to_string(by.from), to_string(by.to)),
      {},
      "give its size (--dim, in Python dims=); of a symbol the nearest element is repeated a whole "
      "number of "
      "times, or all stay"};
}

int64_t whole_factor(const Dim& size, const Dim& extent) {
  for (int64_t factor = 1; factor <= kMostRepeats; ++factor)
    if (size == Dim(factor) * extent) return factor;
  return 0;
}

Result<std::vector<ResizedAxis>> resized_axes(Node& node, const Shape& shape) {
  const auto rank = static_cast<int64_t>(shape.size());
  std::vector<int64_t> axes = node.integer_list("axes").value_or(all_axes(rank));
  if (const auto distinct = normalise_axes(axes, rank); !distinct)
    return tl::make_unexpected(distinct.error());
  for (int64_t& axis : axes) {
    ATTACCA_TRY(axis, normalise_axis(axis, rank));
  }
  const size_t scales_at = node.opset() < 11 ? 1 : 2;
  std::vector<float> scales = scales_attribute(node);
  std::vector<Dim> sizes;
  if (has_elements(node, scales_at)) {
    ATTACCA_TRY(scales, floats(node, scales_at, "scales"));
  } else if (has_elements(node, 3)) {
    ATTACCA_TRY(sizes, node.dims(3, "sizes"));
  }
  if (scales.size() + sizes.size() != axes.size())
    return fail(
        fmt::format("{} scales and {} sizes for {} axes", scales.size(), sizes.size(), axes.size()),
        {}, "give a scale or a size for each axis");
  std::vector<ResizedAxis> resized;
  for (size_t i = 0; i < axes.size(); ++i) {
    const auto axis = static_cast<size_t>(axes[i]);
    ATTACCA_TRY(resized.emplace_back(), sizes.empty() ? by_scale(axis, shape[axis], scales[i])
                                                      : by_size(axis, shape[axis], sizes[i]));
  }
  const std::string policy = node.text("keep_aspect_ratio_policy", "stretch");
  if (policy != "stretch" && policy != "not_larger" && policy != "not_smaller")
    return fail(fmt::format("keep_aspect_ratio_policy={} is not supported", policy));
  if (policy != "stretch" && !sizes.empty())
    ATTACCA_TRY_VOID(keep_ratio(resized, policy == "not_smaller"));
  resized.erase(
      std::remove_if(resized.begin(), resized.end(),
                     [](const ResizedAxis& by) { return by.scale == 1 && by.from == by.to; }),
      resized.end());
  return resized;
}

}  // namespace attacca::import
