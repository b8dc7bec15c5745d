// Finds the names that callers give, and makes the errors for unknown ones.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ir/graph/graph.hpp"

namespace attacca::api {

// "did you mean gelu?" if a known name is similar, else a list of all known names.
std::string suggest(std::string_view name, const std::vector<std::string>& known,
                    std::string_view lead = "one of");

// Errors: the graph has no such input, or the name is a constant's.
Result<ir::Value> find_input(const ir::Graph& graph, const std::string& name);
std::vector<std::string> input_names(const ir::Graph& graph);

// "bf16[M, 4096]" as the type of an input.
Result<ir::Type> parse_type(const std::string& text, const std::string& name);

}  // namespace attacca::api
