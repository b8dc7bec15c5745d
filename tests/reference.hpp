// What a graph's regions read, and what its outputs are compared with.
#pragma once

#include <string>
#include <vector>

#include "ir/interpret/interpreter.hpp"

namespace attacca::testing {

// The value of an input or a constant.
ir::Tensor operand_of(const ir::Graph& graph, ir::Value value, const ir::Bindings& inputs);

// The outputs in f64, and those of the op-by-op interpreter in eager mode.
struct Reference {
  std::vector<ir::Tensor> exact, unfused;
};
Reference make_reference(const ir::Graph& graph, const ir::Bindings& inputs);

// Empty: as good as the unfused graph. Errors against f64 must not exceed those of the op-by-op
// interpreter by more than a last place, and NaN and infinities must be where it has them. `slack`:
// further allowed error, relative to the largest value.
std::string compare_with_reference(const Reference& reference,
                                   const std::vector<ir::Tensor>& outputs, double slack = 0);

}  // namespace attacca::testing
