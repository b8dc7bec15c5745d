// A region that is one product by a constant and ops on its result, as something to join with its
// like.
#pragma once

#include <optional>
#include <vector>

#include "fuse/joining/columns.hpp"
#include "fuse/workspace.hpp"

namespace attacca::fuse {

struct Chain {
  ir::Value matmul;
  std::vector<ir::Value> nodes;  // without views, ascending; the last one is the result

  ir::Value result() const { return nodes.back(); }
};

// The chain of a region whose product has an operand B that nothing else reads, and whose only
// result is seen through views alone; nullopt for other regions.
std::optional<Chain> chain_of(const Facts& facts, const Region& region);

// How an operand of a chain's node compares with the same operand in a chain like it.
enum class Place : uint8_t {
  Member,   // a node of the chain
  Shared,   // the same value, with equal columns
  Columns,  // constants, to be put side by side
};

// The place of each chain's operand `index` of node `at`; nullopt: they are not alike.
std::optional<Place> place_of(const Facts& facts, const std::vector<const Chain*>& chains,
                              size_t at, size_t index);

// The index of an operand among the chain's nodes; nullopt: it is none of them.
std::optional<size_t> member_index(const Chain& chain, ir::Value operand);

// Whether both chains compute the same from one A, except for constants, few of which are numbers
// that would become rows.
bool are_alike(const Facts& facts, const Chain& one, const Chain& other);

// The columns of a constant operand of a chain's node: one for each column of the product.
std::optional<ConstantColumns> columns_of(const Facts& facts, const Chain& chain,
                                          ir::Value operand);

}  // namespace attacca::fuse
