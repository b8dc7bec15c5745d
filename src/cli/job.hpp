// A model with its symbols and inputs bound, for the commands that run or tune it.
#pragma once

#include <string>
#include <vector>

#include "ir/graph/graph.hpp"
#include "ir/interpret/interpreter.hpp"

namespace attacca::cli {

struct Job {
  ir::Graph graph;
  ir::SymbolValues fixed;  // symbols of the file that are numbers in the graph
  ir::SymbolValues symbols;
  std::vector<std::string> assumed;  // symbols that nothing bound, which have a default
  ir::Bindings inputs;
};

// Reads and verifies the file's graph. No symbol or input is bound yet. A file whose shapes depend
// on more than symbols is read for the sizes of `dims` ("M=128"), unless one has several
// ("M=1,16").
Result<Job> load_job(const std::string& file, const std::vector<std::string>& dims);
// `texts`: "x=x.npy".
Status read_inputs(Job& job, const std::vector<std::string>& texts);
// Symbols from `texts` ("M=128"), from the shapes of given files, and the default for the rest.
Status bind_dims(Job& job, const std::vector<std::string>& texts);
// The symbols of every combination of the sizes in `texts`, such as "M=1,16" and "K=8".
Result<std::vector<ir::SymbolValues>> sizes_of(const Job& job,
                                               const std::vector<std::string>& texts);
// "M=128 K=64".
std::string sizes_text(const ir::SymbolValues& symbols);
// "dimensions: M=128, K=64 (assumed: K)\n"; empty where the graph has no symbols.
std::string dims_line(const Job& job);

// The path in the folder for each output, named after it with '_' in place of '/'. Errors: two
// outputs with one path, a name too long for a file. Call it before any work is done.
Result<std::vector<std::string>> output_files(const std::vector<std::string>& outputs,
                                              const std::string& folder);
// `names`: of the outputs.
Status write_outputs(const std::vector<std::string>& names, const std::vector<ir::Tensor>& outputs,
                     const std::string& folder);
std::vector<std::string> output_names(const ir::Graph& graph);

}  // namespace attacca::cli
