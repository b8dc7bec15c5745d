// The parts of emitted CUDA C++: helper functions and the code of each op.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "ir/graph/dtype.hpp"
#include "ir/graph/op.hpp"

namespace attacca::epilogue {

// The code of an op over floats; empty if the table has no such row (fast.def).
std::optional<std::string_view> exact_code(ir::Op op);
std::optional<std::string_view> fast_code(ir::Op op);
std::optional<std::string_view> number_code(ir::Op op, ir::DType dtype);  // BF16 and F16
std::optional<std::string_view> narrow_code(ir::Op op);
std::string_view accurate_code(ir::Op op);  // always

// The reference of an op as a device function over T ("double" or "long long"), named
// attacca_f64_NAME or attacca_s64_NAME.
std::string reference_function(ir::Op op, std::string_view type);

// The definitions of all helper functions that `code` calls, directly or not, in an order in which
// each precedes its use.
std::string helpers_for(std::string_view code);

}  // namespace attacca::epilogue
