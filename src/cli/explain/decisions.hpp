// How regions are computed on a device, and what else could have been chosen.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "ir/graph/graph.hpp"
#include "run/cuda/plan.hpp"
#include "support/text/json.hpp"

namespace attacca::cli {

// The region's number, from 1 as explain_text counts.
size_t region_number(const run::Decision& decision, const fuse::Partition& partition);

// An empty line, then a line for each decision; empty if there is none.
std::string decisions_text(std::span<const run::Decision> decisions,
                           const fuse::Partition& partition);
json::Value decisions_json(std::span<const run::Decision> decisions,
                           const fuse::Partition& partition);

// {"M": 128}.
json::Value dims_json(const ir::SymbolValues& symbols);
// Arrays of the candidates that were timed and of those that were not.
json::Value trials_json(std::span<const tune::Trial> trials);
json::Value exclusions_json(std::span<const launch::Exclusion> exclusions);

}  // namespace attacca::cli
