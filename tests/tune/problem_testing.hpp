// Problems made from text, printed, and compared with the region that they come from.
#pragma once

#include <string>

#include "problem/problem.hpp"

namespace attacca::tune::testing {

struct Made {
  fuse::Partition partition;
  const fuse::Region* region = nullptr;
  Result<problem::Problem> problem = fail("not made");
};

struct MakeOptions {
  ir::SymbolValues symbols = {};
  ir::Mode mode = ir::Mode::Fp32;
  int alignment = 16;  // of every operand's memory
};

// The problem of the last region of "graph g(PARAMETERS) { BODY }".
Made make(const std::string& parameters, const std::string& body, const MakeOptions& options = {});

// "m=4 n=16 batch=3 outer=2 | a 0+(32)8,1 @16 | ...": of a view, offset+(batch)row,column
// @alignment. Outer strides are left out. The error's text where there is none.
std::string words(const Result<problem::Problem>& problem);
std::string words(const std::string& parameters, const std::string& body,
                  const MakeOptions& options = {});

// Empty: every (outer, batch, row, column) of each view reaches the element that the region's
// access says, and no first element of a launch is less aligned than the view says.
std::string difference(const problem::Problem& problem, const fuse::Region& region,
                       const ir::SymbolValues& symbols, const problem::AlignmentOf& alignment_of);

}  // namespace attacca::tune::testing
