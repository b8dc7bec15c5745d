// A model file with its symbols and inputs bound, as the commands that run or tune it want it.
#pragma once

#include <string>
#include <vector>

#include "ir/graph/graph.hpp"
#include "ir/interpret/interpreter.hpp"

namespace attacca::cli {

struct Job {
  ir::Graph graph;
  ir::SymbolValues symbols;
  std::vector<std::string> assumed;  // symbols that nothing bound: they took a default
  ir::Bindings inputs;
};

// The file's graph, verified; no symbol bound, no input made.
Result<Job> load_job(const std::string& file);
// `texts`: "x=x.npy".
Status read_inputs(Job& job, const std::vector<std::string>& texts);
// Symbols from `texts` ("M=128"), from the shapes of given files, and the default for the rest.
Status bind_dims(Job& job, const std::vector<std::string>& texts);
// Of texts with several sizes, "M=1,16" and "K=8": the symbols of every combination.
Result<std::vector<ir::SymbolValues>> sizes_of(const Job& job,
                                               const std::vector<std::string>& texts);
// "M=128 K=64".
std::string sizes_text(const ir::SymbolValues& symbols);
// "dimensions: M=128, K=64 (assumed: K)\n"; empty where the graph has no symbols.
std::string dims_line(const Job& job);

// The file in the folder for each output, its name with '/' as '_'. Errors: two outputs that map to
// one file, a name too long for one; call it before any work is done.
Result<std::vector<std::string>> output_files(const ir::Graph& graph, const std::string& folder);
Status write_outputs(const Job& job, const std::vector<ir::Tensor>& outputs,
                     const std::string& folder);

}  // namespace attacca::cli
