// The device function of one element: the epilogue's expression over named inputs.
#pragma once

#include <string>

#include "epilogue/hole.hpp"

namespace attacca::epilogue {

// Functions of the ops in use, `struct attacca_outputs { T out0; ... }` and
// `attacca_outputs attacca_element(inputs...)`. Values are float, double, int or long long; outputs
// are converted to the lane type of their dtype; the code that stores them rounds.
std::string emit_element(const Epilogue& epilogue, const CudaOptions& options);

// Whether eager mode can round the op's result without computing it in f64, always or in nearly all
// cases (BF16, F16 and NARROW in fast.def).
bool is_decided_narrowly(const Node& node);

}  // namespace attacca::epilogue
