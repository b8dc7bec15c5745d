// What is assumed of sizes that are symbols while a model is read.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ir/graph/dim.hpp"

namespace attacca::import {

// Symbols that stand for other extents, which are made of none of these symbols.
using EqualExtents = std::map<std::string, ir::Dim>;

struct Equality {
  std::string symbol;
  ir::Dim extent;
};

// What must be equal, so that shapes which do not broadcast may do: of the last axis where that is
// so. nullopt: they broadcast, or no such equality would do.
std::optional<Equality> missing_equality(const std::vector<ir::Shape>& shapes);

// What is assumed of sizes that are symbols. A first reading assumes nothing, so that it also holds
// for an axis shorter than a slice's bound and for different symbols that are unequal, and notes
// which of these it met. If it fails, the model is read again, which assumes what would have
// helped. Where an op broadcasts different symbols, they count as equal (neither is 1 at run time):
// one of them stands for the other in the whole model then, so that a plan checks its inputs.
struct SizeAssumptions {
  EqualExtents equal = {};
  // What the node that is read would need.
  std::optional<Equality> missing = {};
  bool allow_short = true;
  bool allow_unequal = true;
  bool allow_empty = false;  // axes of no elements, too, may be sliced from or to the first one
  bool met_short = false;    // a slice was read that a short axis clamps
  bool met_unequal = false;  // extents were read that need be equal
  // Extents of slices such as M - 1, which a plan checks not to be negative.
  std::vector<ir::Dim> of_slices = {};
};

// What is assumed when a model is read again; nullopt: no more that may help. Where symbols may be
// broadcast at run time, none count as equal for that.
std::optional<SizeAssumptions> more_assumed(const SizeAssumptions& failed, bool may_be_one);

}  // namespace attacca::import
