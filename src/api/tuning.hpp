// Tuning by many processes: what they send each other, as JSON.
#pragma once

#include <string>
#include <string_view>

#include "api/options.hpp"
#include "ir/graph/graph.hpp"
#include "run/shared/target.hpp"
#include "support/text/json.hpp"

namespace attacca::api {

// {"device": "NVIDIA H200", "capability": 90, "tools": "attacca 0.2.0, ..."}. Errors: no such GPU.
Result<json::Value> machine_json(const run::DeviceId& device);

// A GPU of this machine, "cuda" or "cuda:1", or one that need not be here: "h200", "sm_90". `mode`:
// "fp32" or "eager", perhaps with "+batch_invariant".
Result<run::Target> tuning_target(const std::string& device, std::string_view mode);

// The problems of a graph that a decision is made for:
//   [{"region": 1, "problem": ..., "shape": ..., "operations": ..., "text": {problem_json.hpp}}]
// "problem" is empty where there is only one way. Errors: a graph that does not verify, sizes that
// are not those of its symbols.
Result<json::Value> problems_json(const ir::Graph& graph, const run::Target& target,
                                  const ir::SymbolValues& sizes);

// Decides a problem on a GPU, as a plan with these options does. Returns what decision_json()
// (decision.hpp) writes, and "choice", a row as rows_json() writes it, where a time is known.
// Errors: a text that is no problem, those of run::decide().
Result<json::Value> tune_problem(const std::string& problem, const Options& options);

// The rows of the tuning database:
//   [{"device", "tools", "problem", "shape", "candidate", "seconds", "unfused_seconds", "made",
//     "quick"}]
Result<json::Value> rows_json();
// Stores all of them or none, whatever machine they are of; returns how many. A row replaces the
// one with its key, unless it is of a quick tuning and the other is not. Errors: JSON that is not
// such a list, rows that no tuning made, the database's.
Result<size_t> store_rows(const std::string& json);

}  // namespace attacca::api
