#include "fold/constants.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string>

#include "fmt/format.h"

#include "fold/rule.hpp"

namespace attacca::fold {
namespace {

constexpr double kTolerance = 1e-6;

}  // namespace

std::optional<double> Constants::read(const ir::Node& node) {
  if (node.op != ir::Op::Constant) return std::nullopt;
  double value = 0;
  std::optional<ir::DType> rounded;
  if (node.literal) {
    value = node.literal->value;
  } else {
    if (node.tensor->size() != 1 || !ir::is_float(node.type.dtype)) return std::nullopt;
    value = node.tensor->number_at(0);
    rounded = node.type.dtype;
  }
  if (!std::isfinite(value)) return std::nullopt;
  const double sign = value < 0 ? -1 : 1;
  const double result = sign * recognised(std::fabs(value), rounded);
  if (rounded && result != value) original_[std::fabs(result)] = std::fabs(value);
  return result;
}

double Constants::recognised(double value, std::optional<ir::DType> rounded) {
  const auto known = known_constants();
  double best = value, nearest = INFINITY;
  const double reach = rounded ? 0.07 : kTolerance;  // the coarsest float is f8e5m2
  for (auto it = std::lower_bound(known.begin(), known.end(), value * (1 - reach));
       it != known.end() && *it <= value * (1 + reach); ++it) {
    const double distance = std::fabs(*it - value);
    const bool within =
        distance <= kTolerance * value || (rounded && ir::round_to(*rounded, *it) == value);
    if (!within || distance >= nearest) continue;
    best = *it;
    nearest = distance;
  }
  return best;
}

double Constants::write(double value) const {
  for (const auto& [recognised, original] : original_)
    if (std::fabs(std::fabs(value) - recognised) <= 1e-12 * recognised)
      return std::copysign(original, value);
  const double shorter = std::strtod(fmt::format("{:.12g}", value).c_str(), nullptr);
  return std::fabs(shorter - value) <= 1e-14 * std::fabs(value) ? shorter : value;
}

}  // namespace attacca::fold
