// Resize and Upsample. Of the nearest elements it is a gather along each axis, or, where each is
// repeated as often, a broadcast; linear and cubic, weighted sums of two and four gathers.
#include <algorithm>
#include <cmath>

#include "fmt/format.h"

#include "import/onnx/ops.hpp"
#include "import/onnx/products/resized_axes.hpp"

namespace attacca::import {
namespace {

using ir::Dim;
using ir::DType;
using ir::Op;
using ir::Shape;
using ir::Tensor;
using ir::Value;

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
  const int64_t factor = whole_factor(by.to, by.from);
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

// What an axis' new elements are sums of: weights[t][i] times the element at[t][i], for all t.
struct Taps {
  std::vector<std::vector<int64_t>> at;
  std::vector<std::vector<double>> weights;

  explicit Taps(size_t count) : at(count), weights(count) {}
};

// The weights of the elements before and behind each place. Places outside count as the border.
Taps linear_taps(const ResizedAxis& by, const CoordinateMode& mode) {
  const int64_t extent = by.from.value();
  Taps taps(2);
  for (const float place : original_places(by, mode, 0)) {
    const float inside = std::clamp(place, 0.0F, static_cast<float>(extent - 1));
    const double beyond = inside - std::floor(inside);
    const int64_t before = within(std::floor(inside), extent);
    taps.at[0].push_back(before);
    taps.at[1].push_back(std::min(before + 1, extent - 1));
    taps.weights[0].push_back(1 - beyond);
    taps.weights[1].push_back(beyond);
  }
  return taps;
}

struct Cubic {
  double a;              // the kernel's second derivative at 1 is 2 * a
  bool exclude_outside;  // else elements outside are those at the border

  // Keys, "Cubic convolution interpolation for digital image processing" (1981): of an element at
  // this distance from a place.
  double weight(double distance) const {
    const double x = std::abs(distance);
    if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
    return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
  }

  // The weights of the two elements before and the two behind each place.
  Taps taps(const ResizedAxis& by, const CoordinateMode& mode) const {
    const int64_t extent = by.from.value();
    Taps taps(4);
    for (const float place : original_places(by, mode, 0)) {
      const double before = std::floor(place);
      double own[4], sum = 0;
      for (int t = 0; t < 4; ++t) {
        const double at = before - 1 + t;
        const bool outside = at < 0 || at >= static_cast<double>(extent);
        own[t] = exclude_outside && outside ? 0 : weight(at - place);
        sum += own[t];
        taps.at[static_cast<size_t>(t)].push_back(within(at, extent));
      }
      for (size_t t = 0; t < 4; ++t)
        taps.weights[t].push_back(exclude_outside ? own[t] / sum : own[t]);
    }
    return taps;
  }
};

bool all_are(const std::vector<double>& weights, double value) {
  return std::all_of(weights.begin(), weights.end(), [&](double w) { return w == value; });
}

// The sums along an axis, of F32 or F64.
Expr sums_along(Node& node, const Expr& x, size_t rank, size_t axis, const Taps& taps) {
  std::optional<Expr> sum;
  for (size_t t = 0; t < taps.at.size(); ++t) {
    const std::vector<double>& weights = taps.weights[t];
    if (all_are(weights, 0)) continue;
    Expr term = elements_at(node, x, axis, taps.at[t]);
    if (!term.value) return term;
    if (!all_are(weights, 1)) {
      std::vector<int64_t> spread(rank, 1);
      spread[axis] = static_cast<int64_t>(weights.size());
      auto tensor = Tensor::make(node.dtype(*term.value), spread);
      if (!tensor) return {&node.graph(), tl::make_unexpected(tensor.error())};
      for (size_t i = 0; i < weights.size(); ++i)
        tensor->set_number(static_cast<int64_t>(i), weights[i]);
      term = term * node.expr(node.graph().constant(*std::move(tensor)));
    }
    sum = sum ? *sum + term : term;
  }
  return sum ? *sum : elements_at(node, x, axis, taps.at[0]);  // none: of no elements
}

Status check_resized(const std::vector<ResizedAxis>& axes) {
  for (const ResizedAxis& by : axes) {
    if (by.from.is(0)) return fail(fmt::format("axis {} of no elements is resized", by.axis));
    if (by.to.is_static() && by.to.value() > kMostResized)
      return fail(fmt::format("axis {} becomes {}", by.axis, by.to.value()), {},
                  fmt::format("resize to at most {} elements", kMostResized));
  }
  return {};
}

}  // namespace

Result<Outputs> resize(Node& node) {
  ATTACCA_TRY(const Value x, node.input(0));
  const Shape shape = node.shape(x);
  ATTACCA_TRY(const std::vector<ResizedAxis> axes, resized_axes(node, shape));
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
  const bool is_cubic = mode == "cubic";
  if (mode != "linear" && mode != "bilinear" && !is_cubic)
    return fail(fmt::format("mode={} is not supported", mode), {},
                "use nearest, linear or cubic, or run the file with ONNX Runtime");
  const DType dtype = node.dtype(x);
  if (!ir::is_float(dtype))
    return fail(fmt::format("a {} Resize of {}", mode, ir::name(dtype)), {}, "cast it to float");
  const Cubic cubic{node.real("cubic_coeff_a", -0.75), node.integer("exclude_outside", 0) != 0};
  Expr result = cast(node.expr(x), dtype == DType::F64 ? dtype : DType::F32);
  for (const ResizedAxis& by : axes) {
    if (!by.from.is_static() || !by.to.is_static()) return tl::make_unexpected(unknown_extent(by));
    const Taps taps = is_cubic ? cubic.taps(by, *coordinates) : linear_taps(by, *coordinates);
    result.value = sums_along(node, result, shape.size(), by.axis, taps).value;
  }
  return cast(result, dtype);
}

}  // namespace attacca::import
