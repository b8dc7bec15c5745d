// Gated products: an expression of two accumulators that share A. They are the two halves or the
// alternate columns of one product, or two products of equal shape.
#pragma once

#include "fuse/workspace.hpp"

namespace attacca::fuse {

// Whether two products read the same elements of one value as A.
bool reads_same_a(const Facts& facts, ir::Value first, ir::Value second);

// Two products and the first op that reads both.
struct GatePair {
  ir::Value first, second, meet;
};

// The pair of each product; a product is in one pair at most.
std::map<uint32_t, GatePair> find_gate_pairs(const Facts& facts);

// The grown region; nullopt, with no node owned, if the two products do not meet inside it.
std::optional<Draft> draft_pair(Workspace& work, const GatePair& pair);
std::optional<Draft> draft_halves(Workspace& work, ir::Value matmul);

}  // namespace attacca::fuse
