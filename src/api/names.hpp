// Words that callers give, and what to say of those that are none of ours.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ir/graph/graph.hpp"

namespace attacca::api {

// "did you mean gelu?" where a known name is close, else "known, all of them".
std::string suggest(std::string_view name, const std::vector<std::string>& known,
                    std::string_view lead = "one of");

std::vector<std::string> input_names(const ir::Graph& graph);

// "bf16[M, 4096]" as the type of an input.
Result<ir::Type> parse_type(const std::string& text, const std::string& name);

}  // namespace attacca::api
