// Makes nodes of a parsed call.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ir/text/arguments.hpp"

namespace attacca::ir {

// Whether a table op or a composition (ir/text/compose.hpp) has this name and is written as a call.
bool is_call_name(std::string_view name);
// The end of the message about any other name, such as "did you mean sigmoid?"
std::string suggest_call(std::string_view name);

// The results of the call; only split has several. REQUIRES: is_call_name(call.name), and the name
// is not `constant`, which has a syntax of its own.
Result<std::vector<Value>> lower_call(Graph& graph, const SourceText& source, const Call& call);

}  // namespace attacca::ir
