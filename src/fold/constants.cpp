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

// The number of an ascending list that is nearest to value, within reach * value, and accepted.
template <class Accept>
std::optional<double> nearest(std::span<const double> list, double value, double reach,
                              const Accept& accept) {
  std::optional<double> best;
  for (auto it = std::lower_bound(list.begin(), list.end(), value * (1 - reach));
       it != list.end() && *it <= value * (1 + reach); ++it)
    if (accept(*it) && (!best || std::fabs(*it - value) < std::fabs(*best - value))) best = *it;
  return best;
}

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
  const double magnitude = std::fabs(value);
  const double result = recognised(magnitude, rounded);
  if (result != magnitude) original_[result] = magnitude;
  return std::copysign(result, value);
}

double Constants::recognised(double value, std::optional<ir::DType> rounded) {
  // The coarsest float is f8e5m2.
  if (rounded)
    if (const auto found = nearest(known_constants(), value, 0.07, [&](double known) {
          return ir::round_to(*rounded, known) == value;
        }))
      return *found;
  const auto any = [](double) { return true; };
  for (const auto known : {known_constants(), known_products()})
    if (const auto found = nearest(known, value, kTolerance, any)) return *found;
  return value;
}

double Constants::write(double value) const {
  for (const auto& [recognised, original] : original_)
    if (std::fabs(std::fabs(value) - recognised) <= 1e-12 * recognised)
      return std::copysign(original, value);
  const double shorter = std::strtod(fmt::format("{:.12g}", value).c_str(), nullptr);
  return std::fabs(shorter - value) <= 1e-14 * std::fabs(value) ? shorter : value;
}

}  // namespace attacca::fold
