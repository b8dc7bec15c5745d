// Runs a partition region by region in f64, following its accesses literally: slow, and independent
// of every executor.
#pragma once

#include <map>
#include <vector>

#include "fuse/fuse.hpp"
#include "ir/interpret/interpreter.hpp"

namespace attacca::fuse::testing {

// The graph's outputs, row-major. Inputs are f64 values by name, row-major.
std::vector<std::vector<double>> run_partition(
    const Partition& partition, const ir::SymbolValues& symbols,
    const std::map<std::string, std::vector<double>>& inputs);

}  // namespace attacca::fuse::testing
