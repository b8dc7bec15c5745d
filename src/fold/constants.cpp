#include "fold/constants.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string>

#include "fmt/format.h"

#include "fold/egraph.hpp"
#include "fold/rule.hpp"

namespace attacca::fold {
namespace {

constexpr double kTolerance = 1e-6, kToleranceF64 = 1e-12;  // of irrational numbers
// Two spellings of one number in one graph; see Constants::write.
constexpr double kOneNumber = 4e-6;

double tolerance(bool precise) {
  return precise ? kToleranceF64 : kTolerance;
}

// The accepted number of an ascending list that is nearest to value, within reach * value.
template <class Accept>
std::optional<double> nearest(std::span<const double> list, double value, double reach,
                              const Accept& accept) {
  std::optional<double> best;
  for (auto it = std::lower_bound(list.begin(), list.end(), value * (1 - reach));
       it != list.end() && *it <= value * (1 + reach); ++it)
    if (accept(*it) && (!best || std::fabs(*it - value) < std::fabs(*best - value))) best = *it;
  return best;
}

// For ops of f32, 1/6 is also its nearest f32; 0.5, which f32 can represent, is only itself.
bool is_exact(double value, double number, bool precise) {
  if (value == number) return true;
  const auto single = static_cast<float>(number);
  return !precise && single != number && static_cast<float>(value) == single;
}

std::optional<double> recognise(double value, std::optional<ir::DType> rounded, bool precise) {
  // The coarsest float is f8e5m2.
  if (rounded)
    for (const auto list : {exact_constants(), irrational_constants()})
      if (const auto found = nearest(list, value, 0.07, [&](double known) {
            return ir::round_to(*rounded, known) == value;
          }))
        return found;
  const auto exact = [&](double known) { return is_exact(value, known, precise); };
  for (const auto list : {exact_constants(), exact_products()})
    if (const auto found = nearest(list, value, kTolerance, exact)) return found;
  const auto any = [](double) { return true; };
  for (const auto list : {irrational_constants(), irrational_products()})
    if (const auto found = nearest(list, value, tolerance(precise), any)) return found;
  return std::nullopt;
}

}  // namespace

std::optional<double> Constants::read(const ir::Node& node) {
  if (node.op != ir::Op::Constant) return std::nullopt;
  if (node.literal) {
    const double value = node.literal->value;
    if (!std::isfinite(value)) return std::nullopt;
    const double number = recognised(value, std::nullopt);
    if (is_near_miss(number)) return std::nullopt;
    note_literal(number);
    return number;
  }
  if (node.tensor->size() != 1 || !ir::is_float(node.type.dtype)) return std::nullopt;
  const double value = node.tensor->number_at(0);
  if (!std::isfinite(value)) return std::nullopt;
  const bool rounded = rounds_ && node.type.dtype == dtype_;
  const double number = recognised(value, rounded ? std::optional(dtype_) : std::nullopt);
  return is_near_miss(number) ? std::nullopt : std::optional(number);
}

double Constants::recognised(double value, std::optional<ir::DType> rounded) {
  const double magnitude = std::fabs(value);
  const auto found = recognise(magnitude, rounded, precise_);
  if (!found) return value;
  // Of two spellings the exact one is written. A number that is near no known one is written as it
  // is.
  const auto [known, fresh] = original_.emplace(*found, magnitude);
  if (magnitude == *found) known->second = magnitude;
  if (!fresh && std::fabs(known->second - magnitude) > kOneNumber * magnitude) return value;
  return std::copysign(*found, value);
}

void Constants::note_literal(double number) {
  for (const double each : {number, 1 / number})
    if (const auto found = recognise(std::fabs(each), std::nullopt, precise_))
      of_literals_.insert(*found);
}

double Constants::write(double value) const {
  for (const auto& [recognised, original] : original_) {
    if (std::fabs(std::fabs(value) - recognised) > 1e-12 * recognised) continue;
    const bool rounded = std::fabs(original - recognised) > kOneNumber * recognised;
    return std::copysign(rounded && of_literals_.contains(recognised) ? recognised : original,
                         value);
  }
  // Not strtod, which reads the number as the process's locale writes it.
  const std::string digits = fmt::format("{:.12g}", value);
  double shorter = value;
  std::from_chars(digits.data(), digits.data() + digits.size(), shorter);
  return std::fabs(shorter - value) <= 1e-14 * std::fabs(value) ? shorter : value;
}

bool is_near_miss(double value) {
  const double magnitude = std::fabs(value);
  const auto found = nearest(exact_constants(), magnitude, 2 * kNoise, [](double) { return true; });
  return found && *found != magnitude;
}

bool stands_for(double value, double number, ir::DType computed) {
  const bool precise = computed == ir::DType::F64;
  const double magnitude = std::fabs(number);
  if (value == number) return true;
  if ((value < 0) != (number < 0)) return false;
  const bool irrational =
      nearest(irrational_constants(), magnitude, 1e-12, [](double) { return true; }).has_value();
  return irrational ? std::fabs(value - number) <= tolerance(precise) * magnitude
                    : is_exact(std::fabs(value), magnitude, precise);
}

}  // namespace attacca::fold
