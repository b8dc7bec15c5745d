// A problem's text as JSON, for other processes:
//
//   {"graph": "graph region(...) {...}", "symbols": {"M": 16}, "mode": "fp32",
//    "alignments": {"x": 16}}
//
// The mode of a batch-invariant one is "fp32+batch_invariant".
#pragma once

#include <optional>
#include <string_view>
#include <utility>

#include "problem/region_graph.hpp"
#include "support/text/json.hpp"

namespace attacca::problem {

json::Value to_json(const ProblemText& text);

// The mode's text without this suffix of batch-invariant ones, and whether it was there.
std::pair<std::string_view, bool> without_batch_invariant(std::string_view mode);

// nullopt: a member is missing or of another type.
std::optional<ProblemText> problem_from_json(const json::Value& json);

}  // namespace attacca::problem
