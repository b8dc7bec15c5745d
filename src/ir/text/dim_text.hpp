// Dimensions as the text form writes them, apart from a graph: `P + S`, `2*M`, `floordiv(M, 2)`.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "ir/graph/dim.hpp"

namespace attacca::ir {

// The dimension of the text, with these in place of its names; a name may also be a reserved word.
// Errors: another name, and what is no dimension.
Result<Dim> parse_dim(std::string_view text, const std::map<std::string, Dim>& names);

}  // namespace attacca::ir
