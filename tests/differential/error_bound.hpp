// How far a correct fp32-mode run may be from the f64 reference, derived element by element.
#pragma once

#include <vector>

#include "ir/interpreter.hpp"

namespace attacca::testing {

struct Bounded {
  std::vector<double> value;  // the f64 reference, row-major
  std::vector<double> error;  // infinite where nothing can be promised (a pole within reach)
};

// One Bounded a graph output. `stored` says which values pass through memory and so are rounded to
// their dtype. REQUIRES: static shapes. Method: each operand's interval [value - error,
// value + error] is pushed through the op at its corners, the op's own rounding is added (2 ulp of
// f32 for a transcendental, as the executor promises), and a product adds the usual K * eps bound
// (Higham, Accuracy and Stability of Numerical Algorithms, section 3.1).
std::vector<Bounded> error_bounds(const ir::Graph& graph, const ir::Bindings& inputs,
                                  const std::vector<bool>& stored);

}  // namespace attacca::testing
