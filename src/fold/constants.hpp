// Constants of a graph as the numbers that they stand for: 0.70710678, and 0.70703125 in bf16, are
// the square root of a half. fold/rules.def says how near a constant must be.
#pragma once

#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "ir/graph/graph.hpp"

namespace attacca::fold {

class Constants {
 public:
  // Of ops whose results have this dtype, and that compute in `computed`, if that differs.
  Constants(ir::DType dtype, std::optional<ir::DType> computed)
      : dtype_(dtype),
        rounds_(computed.value_or(dtype) == dtype),
        precise_(computed.value_or(dtype) == ir::DType::F64) {}

  // The number that a literal, or a tensor of one element and a float dtype, holds: the constant of
  // the rule table that it stands for, else the number itself. A tensor's element, which is
  // rounded, stands for another number only where each op rounds its result as coarsely. nullopt:
  // no number, not finite, or a near miss.
  std::optional<double> read(const ir::Node& node);
  // The same for a number that the graph computes from constants, e.g. 1 / sqrt(2).
  double computed(double value) { return recognised(value, std::nullopt); }
  // The constant to write for a number of the e-graph: read()'s inverse, without the rounding
  // errors of the e-graph's arithmetic.
  double write(double value) const;

 private:
  double recognised(double value, std::optional<ir::DType> rounded);
  // That the graph may compute the number, or its reciprocal, from a literal.
  void note_literal(double number);

  ir::DType dtype_;
  bool rounds_, precise_;
  std::unordered_map<double, double> original_;  // of recognised numbers
  std::unordered_set<double> of_literals_;       // recognised numbers
};

// Whether the e-graph's arithmetic cannot tell the number from another one, e.g. 1 from its
// successor.
bool is_near_miss(double value);
// Whether a graph's constant, of ops that compute in `computed`, stands for a number of a formula.
bool stands_for(double value, double number, ir::DType computed);

}  // namespace attacca::fold
