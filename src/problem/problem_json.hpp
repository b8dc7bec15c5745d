// A problem's text as JSON, for other processes:
//
//   {"graph": "graph region(...) {...}", "symbols": {"M": 16}, "mode": "fp32",
//    "alignments": {"x": 16}}
#pragma once

#include <optional>

#include "problem/region_graph.hpp"
#include "support/text/json.hpp"

namespace attacca::problem {

json::Value to_json(const ProblemText& text);
// nullopt: a member is missing or of another type.
std::optional<ProblemText> problem_from_json(const json::Value& json);

}  // namespace attacca::problem
