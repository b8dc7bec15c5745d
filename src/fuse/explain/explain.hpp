// Describes a partition, with its reasons, as text, as JSON and for Graphviz.
#pragma once

#include <string>

#include "fuse/fuse.hpp"
#include "support/text/json.hpp"

namespace attacca::fuse {

// Regions in their order with shapes, operands, roles and formulas; then every op left out.
std::string explain_text(const Partition& partition);
// The schema stands in docs/explain-json.md.
json::Value explain_json(const Partition& partition);
// Each region is a cluster. More than 60 regions are drawn by overview_dot().
std::string explain_dot(const Partition& partition);
// One region, by its index, with what it reads.
std::string region_text(const Partition& partition, size_t index);
std::string region_dot(const Partition& partition, size_t index);

}  // namespace attacca::fuse
