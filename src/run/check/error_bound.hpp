// How far a right result may be from the f64 reference, derived element by element from the
// roundings of the graph. docs/checking.md states the rules.
#pragma once

#include <vector>

#include "ir/graph/mode.hpp"
#include "ir/interpret/interpreter.hpp"

namespace attacca::run {

// One output: its f64 reference and the interval in which every right run lies before the result is
// rounded to the output's dtype. Row-major.
struct Bounded {
  ir::DType dtype = ir::DType::F32;
  std::vector<double> value;
  std::vector<double> low, high;  // both empty: exact. NaN where the value is NaN for certain.

  // False: the interval of an operand holds a pole, an overflow or a branch, so that the element
  // may have any value.
  bool promises(int64_t at) const;
  // REQUIRES: promises(at). `got` is stored in the dtype: the ends of the interval are rounded to
  // it, so that infinity is right where an end is beyond the largest value of the dtype.
  bool allows(int64_t at, double got) const;
  // The larger distance of an end from the value, the last rounding included; infinite where
  // nothing is promised or the value is not finite in the dtype.
  double error(int64_t at) const;
};

struct BoundOptions {
  // Fp32: constants may differ by the tolerance of the fold rules. Eager: nothing is folded.
  ir::Mode mode = ir::Mode::Fp32;
  // For each node, whether the value is stored in memory, rounded to its dtype. Empty: any value
  // may be, so the bound holds for every way to cut the graph into regions.
  std::vector<bool> stored = {};
};

// One Bounded an output of the graph. Errors: those of ir::interpret.
Result<std::vector<Bounded>> error_bounds(const ir::Graph& graph, const ir::Bindings& inputs,
                                          const BoundOptions& options = {});

}  // namespace attacca::run
