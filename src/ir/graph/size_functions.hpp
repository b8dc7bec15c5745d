// Functions of sizes whose results are no polynomials. They are as simple as can be told for all
// sizes of the symbols, of which none is negative: floor_div(2*M + 3, 2) is M + 1, min(M, 0) is 0.
#pragma once

#include "ir/graph/dim.hpp"

namespace attacca::ir {

// Rounded down. A division by 0 is an error of evaluate().
Dim floor_div(const Dim& a, const Dim& b);
Dim ceil_div(const Dim& a, const Dim& b);
Dim minimum(const Dim& a, const Dim& b);
Dim maximum(const Dim& a, const Dim& b);

// Bounds that hold for all sizes; nullopt where none is known.
std::optional<int64_t> lower_bound(const Dim& dim);
std::optional<int64_t> upper_bound(const Dim& dim);

}  // namespace attacca::ir
