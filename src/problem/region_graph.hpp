// A region as a graph of its own, which can be sent to another process to be timed.
#pragma once

#include <map>
#include <string>

#include "fuse/fuse.hpp"
#include "problem/problem.hpp"

namespace attacca::problem {

// The name of a value in the graph of a region: its own name, else "v" and its number, with a
// suffix if that name is taken.
std::string region_value_name(const ir::Graph& graph, ir::Value value);

// A graph that computes the region's outputs from its inputs.
Result<ir::Graph> region_graph(const ir::Graph& graph, const fuse::Region& region);

// A problem as text: a graph with one region, the values of the symbols, and the alignments of its
// inputs and outputs (16 bytes unless given).
struct ProblemText {
  std::string graph;
  ir::SymbolValues symbols;
  ir::Mode mode = ir::Mode::Fp32;
  std::map<std::string, int> alignments;  // by the name of an input or output
  bool batch_invariant = false;
};
Result<ProblemText> write_problem(const ir::Graph& graph, const fuse::Region& region,
                                  const ir::SymbolValues& symbols, ir::Mode mode,
                                  const AlignmentOf& alignment_of);
Result<Problem> read_problem(const ProblemText& text);

// What read_problem() reads: the one region, and the alignments of its graph's values.
// Errors: a graph that is not one region.
Result<fuse::Partition> cut_problem(const ProblemText& text);
// REQUIRES: both outlive the result.
AlignmentOf alignments_of(const ir::Graph& graph, const ProblemText& text);

}  // namespace attacca::problem
