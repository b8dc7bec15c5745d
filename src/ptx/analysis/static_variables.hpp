// Variables that a function declares and that all its calls share, such as CUDA's
// `static __shared__`. A copy of the function would have its own.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "ptx/syntax/syntax.hpp"

namespace attacca::ptx {

// The module's text with those of these functions declared in front of each function instead, named
// PREFIX, a number and their name. nullopt: there are none.
std::optional<std::string> move_static_variables_out(const Module& module,
                                                     const std::set<const Function*>& functions,
                                                     std::string_view prefix);

}  // namespace attacca::ptx
