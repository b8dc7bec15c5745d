// Shared by the explanations as text, as JSON and for Graphviz.
#pragma once

#include <map>
#include <string>

#include "fuse/fuse.hpp"
#include "fuse/workspace.hpp"

namespace attacca::fuse {

std::string_view kind_name(RegionKind kind);  // "gemm", "user kernel", ...

// The number of the region that computes a node, from 1.
std::map<ir::Value, size_t> region_numbers(const Partition& partition);

// Refusals without repetitions.
std::vector<Refusal> distinct_refusals(const Partition& partition);

// "clamp(x, max=7)": one node as a call on its operands' names.
std::string call_text(const ir::Graph& graph, ir::Value node);

// "matmul, 2 add, gelu": in the order in which the region's ops appear in the graph.
std::string ops_text(const ir::Graph& graph, const Region& region);

// For Graphviz: in quotes; the beginning and the end of a long name, since exporters write the
// whole path of a module; the colour of a region.
std::string quoted(std::string_view text);
std::string shortened(std::string_view full);  // a name, without control characters
std::string_view colour(RegionKind kind);

}  // namespace attacca::fuse
