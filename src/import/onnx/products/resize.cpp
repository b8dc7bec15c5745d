// Resize and Upsample. Of the nearest elements it is a gather along each axis, or, where each is
// repeated as often, a broadcast; linear, two gathers and what lies between them.
#include <algorithm>
#include <cmath>

#include "fmt/format.h"

#include "import/onnx/ops.hpp"

namespace attacca::import {
namespace {

using ir::Dim;
using ir::DType;
using ir::Op;
using ir::Shape;
using ir::Tensor;
using ir::Value;

// An axis whose extent `from` becomes `to`.
struct ResizedAxis {
  size_t axis;
  Dim from, to;
  float scale;
};

// Where in the input the element at `at` of the result lies. As ONNX Runtime's, in f32: quotients
// next to a half fall on the same side.
struct CoordinateMode {
  std::string_view name;
  float (*place)(float at, float scale, float from, float to);
};

const CoordinateMode kCoordinateModes[] = {
    {"half_pixel", [](float at, float scale, float, float) { return (at + 0.5F) / scale - 0.5F; }},
    {"pytorch_half_pixel", [](float at, float scale, float,
                              float to) { return to > 1 ? (at + 0.5F) / scale - 0.5F : 0.0F; }},
    {"asymmetric", [](float at, float scale, float, float) { return at / scale; }},
    {"align_corners", [](float at, float, float from,
                         float to) { return to == 1 ? 0 : at * (from - 1) / (to - 1); }},
    {"tf_half_pixel_for_nn",
     [](float at, float scale, float, float) { return (at + 0.5F) / scale; }},
    {"half_pixel_symmetric",
     [](float at, float scale, float from, float to) {
       const float adjustment = to / (scale * from);
       return from / 2 * (1 - adjustment) + (at + 0.5F) / scale - 0.5F;
     }},
};

struct NearestMode {
  std::string_view name;
  double (*round)(double place, float scale);
};

// What lies so close to a half counts as one, as in ONNX Runtime.
constexpr double kHalf = 0.5 + 1e-6;

const NearestMode kNearestModes[] = {
    {"round_prefer_floor", [](double x, float) { return std::ceil(x - kHalf); }},
    {"round_prefer_ceil", [](double x, float) { return std::floor(x + kHalf); }},
    {"floor", [](double x, float) { return std::floor(x); }},
    {"ceil", [](double x, float) { return std::ceil(x); }},
    // Before opset 11, which had no attribute for it.
    {"simple", [](double x, float scale) { return scale < 1 ? std::ceil(x) : std::trunc(x); }},
};

template <class Mode, size_t N>
Result<const Mode*> mode_of(const Mode (&modes)[N], std::string_view attribute,
                            const std::string& name) {
  for (const Mode& mode : modes)
    if (mode.name == name) return &mode;
  return fail(fmt::format("{}={} is not supported", attribute, name), {},
              "run the file with ONNX Runtime");
}

Error unknown_extent(const ResizedAxis& by) {
  return {
      fmt::format("axis {} of extent {} becomes {}", by.axis, to_string(by.from), to_string(by.to)),
      {},
      "give its size, e.g. --dim; of a symbol the nearest element is repeated a whole number of "
      "times, or all stay"};
}

// ---- Sizes and scales

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

// By which whole number, up to kMostRepeats, an extent becomes a size; 0 if by none.
int64_t times(const Dim& size, const Dim& extent) {
  for (int64_t factor = 1; factor <= kMostRepeats; ++factor)
    if (size == Dim(factor) * extent) return factor;
  return 0;
}

constexpr int64_t kMostElements = 1 << 16;  // of a resized axis

// The size to which a scale leads.
Result<Dim> scaled(size_t axis, const Dim& from, float scale, float (*rounded)(float)) {
  if (!(scale > 0))
    return fail(fmt::format("axis {} is scaled by {}", axis, scale), {}, "give a number above 0");
  if (from.is_static()) {
    const float size = rounded(scale * static_cast<float>(from.value()));
    if (scale == 1 || size <= kMostElements)
      return scale == 1 ? from : Dim(static_cast<int64_t>(size));
  } else if (scale == std::trunc(scale) && scale <= kMostRepeats) {
    return Dim(static_cast<int64_t>(scale)) * from;
  }
  return fail(fmt::format("axis {} of extent {} is scaled by {}", axis, to_string(from), scale), {},
              from.is_static() ? fmt::format("resize to at most {} elements", kMostElements)
                               : "give its size, e.g. --dim");
}

Result<ResizedAxis> by_scale(size_t axis, const Dim& from, float scale) {
  ATTACCA_TRY(Dim to, scaled(axis, from, scale, [](float x) { return std::floor(x); }));
  return ResizedAxis{axis, from, std::move(to), scale};
}

Result<ResizedAxis> by_size(size_t axis, const Dim& from, const Dim& to) {
  if (from.is_static() && to.is_static() && to.value() >= 0 && from.value() > 0)
    return ResizedAxis{axis, from, to,
                       static_cast<float>(to.value()) / static_cast<float>(from.value())};
  if (const int64_t factor = times(to, from); factor > 0)
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

// What is resized, axis by axis; those that keep their extent are left out.
Result<std::vector<ResizedAxis>> read_axes(Node& node, const Shape& shape) {
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

// ---- Elements

// The places of an axis of numbers, or, of a symbol, of one of `sample` elements.
std::vector<float> original_places(const ResizedAxis& by, const CoordinateMode& mode,
                                   int64_t sample) {
  const int64_t from = by.from.is_static() ? by.from.value() : sample;
  const int64_t to = by.to.is_static() ? by.to.value() : from * static_cast<int64_t>(by.scale);
  std::vector<float> found;
  for (int64_t i = 0; i < to; ++i)
    found.push_back(mode.place(static_cast<float>(i), by.scale, static_cast<float>(from),
                               static_cast<float>(to)));
  return found;
}

int64_t within(double place, int64_t extent) {
  return static_cast<int64_t>(std::clamp(place, 0.0, static_cast<double>(extent - 1)));
}

Expr elements_at(Node& node, const Expr& x, size_t axis, const std::vector<int64_t>& at) {
  auto index = Tensor::make(DType::S64, {static_cast<int64_t>(at.size())});
  if (!index) return {&node.graph(), tl::make_unexpected(index.error())};
  std::copy(at.begin(), at.end(), index->as<int64_t>());
  const Expr places = node.expr(node.graph().constant(*std::move(index)));
  return emit(Op::Gather, std::vector<Expr>{x, places}, ir::AxisAttrs{static_cast<int64_t>(axis)});
}

struct Nearest {
  const CoordinateMode* coordinates;
  const NearestMode* rounding;

  std::vector<int64_t> elements(const ResizedAxis& by, int64_t sample) const {
    const int64_t extent = by.from.is_static() ? by.from.value() : sample;
    std::vector<int64_t> at;
    for (const float place : original_places(by, *coordinates, sample))
      at.push_back(within(rounding->round(place, by.scale), extent));
    return at;
  }
};

// How often each element is repeated; nullopt: not all as often. Of a symbol, what holds for 8
// elements holds for any number, as long as the corners are not aligned.
std::optional<int64_t> repeats(const ResizedAxis& by, const Nearest& nearest) {
  constexpr int64_t kSample = 8;
  const int64_t factor = times(by.to, by.from);
  if (factor == 0 || (!by.from.is_static() && nearest.coordinates->name == "align_corners"))
    return std::nullopt;
  const std::vector<int64_t> at = nearest.elements(by, kSample);
  for (size_t i = 0; i < at.size(); ++i)
    if (at[i] != static_cast<int64_t>(i) / factor) return std::nullopt;
  return factor;
}

// Each element of some axes repeated, by a broadcast of new axes behind them.
Expr repeated_along(const Expr& x, const Shape& shape, const std::vector<int64_t>& factors) {
  Shape apart, wide, result;
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    result.push_back(Dim(factors[axis]) * shape[axis]);
    apart.push_back(shape[axis]);
    wide.push_back(shape[axis]);
    if (factors[axis] == 1) continue;
    apart.emplace_back(1);
    wide.emplace_back(factors[axis]);
  }
  return reshape(broadcast_to(reshape(x, apart), wide), result);
}

Expr nearest_elements(Node& node, Value x, const std::vector<ResizedAxis>& axes,
                      const Nearest& nearest) {
  Expr result = node.expr(x);
  std::vector<int64_t> factors(node.shape(x).size(), 1);
  bool broadcast = false;
  for (const ResizedAxis& by : axes) {
    if (const auto factor = repeats(by, nearest)) {
      factors[by.axis] = *factor;
      broadcast = true;
    } else if (by.from.is_static() && by.to.is_static()) {
      result = elements_at(node, result, by.axis, nearest.elements(by, 0));
    } else {
      return {&node.graph(), tl::make_unexpected(unknown_extent(by))};
    }
  }
  if (!result.value || !broadcast) return result;
  return repeated_along(result, node.shape(*result.value), factors);
}

// (1 - w) * the element before + w * the one behind each place.
Expr between_elements(Node& node, const Expr& x, size_t rank, const ResizedAxis& by,
                      const CoordinateMode& mode) {
  if (!by.from.is_static() || !by.to.is_static())
    return {&node.graph(), tl::make_unexpected(unknown_extent(by))};
  const int64_t extent = by.from.value();
  std::vector<int64_t> before, behind;
  std::vector<double> weights;
  for (const float place : original_places(by, mode, 0)) {
    const float inside = std::clamp(place, 0.0F, static_cast<float>(extent - 1));
    before.push_back(within(std::floor(inside), extent));
    behind.push_back(std::min(before.back() + 1, extent - 1));
    weights.push_back(inside - std::floor(inside));
  }
  const Expr low = elements_at(node, x, by.axis, before);
  if (std::all_of(weights.begin(), weights.end(), [](double w) { return w == 0; })) return low;
  std::vector<int64_t> spread(rank, 1);
  spread[by.axis] = static_cast<int64_t>(weights.size());
  auto tensor = Tensor::make(DType::F32, spread);
  if (!tensor) return {&node.graph(), tl::make_unexpected(tensor.error())};
  for (size_t i = 0; i < weights.size(); ++i)
    tensor->set_number(static_cast<int64_t>(i), weights[i]);
  const Expr high = elements_at(node, x, by.axis, behind);
  if (!low.value) return low;
  const DType dtype = node.dtype(*low.value);
  const Expr weight = folded(cast(node.expr(node.graph().constant(*std::move(tensor))), dtype));
  return low * folded(1.0 - weight) + high * weight;
}

Status check_resized(const std::vector<ResizedAxis>& axes) {
  for (const ResizedAxis& by : axes) {
    if (by.from.is(0)) return fail(fmt::format("axis {} of no elements is resized", by.axis));
    if (by.to.is_static() && by.to.value() > kMostElements)
      return fail(fmt::format("axis {} becomes {}", by.axis, by.to.value()), {},
                  fmt::format("resize to at most {} elements", kMostElements));
  }
  return {};
}

}  // namespace

Result<Outputs> resize(Node& node) {
  ATTACCA_TRY(const Value x, node.input(0));
  const Shape shape = node.shape(x);
  ATTACCA_TRY(const std::vector<ResizedAxis> axes, read_axes(node, shape));
  if (axes.empty()) return x;
  ATTACCA_TRY_VOID(check_resized(axes));
  if (node.integer("antialias", 0) != 0)
    return fail("antialias=1 is not supported", {}, "run the file with ONNX Runtime");
  const bool old = node.opset() < 11;
  ATTACCA_TRY(const auto* coordinates, mode_of(kCoordinateModes, "coordinate_transformation_mode",
                                               node.text("coordinate_transformation_mode",
                                                         old ? "asymmetric" : "half_pixel")));
  const std::string mode = node.text("mode", "nearest");
  if (mode == "nearest") {
    ATTACCA_TRY(const auto* rounding,
                mode_of(kNearestModes, "nearest_mode",
                        node.text("nearest_mode", old ? "simple" : "round_prefer_floor")));
    return nearest_elements(node, x, axes, {coordinates, rounding});
  }
  if (mode != "linear" && mode != "bilinear")
    return fail(fmt::format("mode={} is not supported", mode), {},
                "use nearest or linear, or run the file with ONNX Runtime");
  const DType dtype = node.dtype(x);
  if (!ir::is_float(dtype))
    return fail(fmt::format("a linear Resize of {}", ir::name(dtype)), {}, "cast it to float");
  Expr result = cast(node.expr(x), dtype == DType::F64 ? dtype : DType::F32);
  for (const ResizedAxis& by : axes)
    result.value = between_elements(node, result, shape.size(), by, *coordinates).value;
  return cast(result, dtype);
}

}  // namespace attacca::import
