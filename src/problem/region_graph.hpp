// A region on its own, so that another process can be asked to time it.
#pragma once

#include <map>
#include <string>

#include "fuse/fuse.hpp"
#include "problem/problem.hpp"

namespace attacca::problem {

// What a value of the graph is called in the graph of a region: its name, else v and its number
// (and more, where another value is called so).
std::string region_value_name(const ir::Graph& graph, ir::Value value);

// A graph that computes the region's outputs from its inputs.
Result<ir::Graph> region_graph(const ir::Graph& graph, const fuse::Region& region);

// A problem that can be written down: a graph with one region, the symbols' values, and how aligned
// the memory of its inputs and outputs is (16 where nothing is said).
struct ProblemText {
  std::string graph;
  ir::SymbolValues symbols;
  ir::Mode mode = ir::Mode::Fp32;
  std::map<std::string, int> alignments;  // by the name of an input or output
};
Result<ProblemText> write_problem(const ir::Graph& graph, const fuse::Region& region,
                                  const ir::SymbolValues& symbols, ir::Mode mode,
                                  const AlignmentOf& alignment_of);
Result<Problem> read_problem(const ProblemText& text);

}  // namespace attacca::problem
