// How regions are computed on a device, and what else could have been chosen.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "ir/graph/graph.hpp"
#include "run/cuda/plan.hpp"
#include "support/text/json.hpp"

namespace attacca::cli {

// Follows a candidate before which a kernel gathers rows of A.
inline constexpr const char* kGathersBefore = " after a gather";
// Follows one before which a kernel widens weights in codes.
inline constexpr const char* kWidensBefore = " after widening";

// An empty line, then a line for each decision; empty if there is none.
std::string decisions_text(std::span<const run::Decision> decisions,
                           const fuse::Partition& partition);

// {"M": 128}.
json::Value dims_json(const ir::SymbolValues& symbols);
// The candidates that were timed.
json::Value trials_json(std::span<const tune::Trial> trials);

}  // namespace attacca::cli
