// Constants of a graph as the numbers their authors meant: 0.70710678, and 0.70703125 in bf16, are
// the square root of a half.
#pragma once

#include <optional>
#include <unordered_map>

#include "ir/graph.hpp"

namespace attacca::fold {

class Constants {
 public:
  // The number that a literal, or a tensor of one element and a float dtype, holds: the known
  // constant (fold/rule.hpp) within the tolerance, else the number itself. The tolerance is 1e-6
  // relative, and for tensors what rounds to the same element. nullopt: no number, or not finite.
  std::optional<double> read(const ir::Node& node);
  // What to write for a number of the e-graph: read()'s inverse, free of its arithmetic's noise.
  double write(double value) const;

 private:
  double recognised(double value, std::optional<ir::DType> rounded);

  std::unordered_map<double, double> original_;  // of recognised numbers
};

}  // namespace attacca::fold
