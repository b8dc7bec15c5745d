// Graphs of one region each, with inputs: every kind of product and of tail that a kernel may
// compute, the regions of random graphs, and those that are required to fuse.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "ir/interpret/interpreter.hpp"
#include "problem/problem.hpp"
#include "reference.hpp"

namespace attacca::testing {

struct RegionCase {
  std::string text;
  ir::Graph folded;
  ir::SymbolValues symbols;
  problem::Problem problem;
  ir::Bindings inputs;
  Reference reference;
};

// Those for an H200. Graphs that become more regions, or one that needs several launches, are none.
const std::vector<RegionCase>& region_cases();

// Host memory of every value that a problem reads or writes; results are poisoned.
class RegionMemory {
 public:
  explicit RegionMemory(const RegionCase& each);

  const problem::Addresses& addresses() const { return addresses_; }
  // In the order of the graph's outputs.
  std::vector<ir::Tensor> outputs() const;

 private:
  void* operand(ir::Value value);
  void* result(ir::Value value, bool zero);

  const RegionCase& case_;
  std::map<ir::Value, ir::Tensor> memory_;
  problem::Addresses addresses_;
};

}  // namespace attacca::testing
