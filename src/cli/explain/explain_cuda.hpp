// `attacca explain --device cuda`: the ranking for each product, and why other templates are
// excluded.
#pragma once

#include <string>
#include <vector>

#include "cli/commands.hpp"
#include "cli/job.hpp"
#include "support/text/json.hpp"
#include "tune/candidates.hpp"

namespace attacca::cli {

struct RankedRegion {
  size_t number;
  launch::Candidates candidates;
  bool is_kernel = false;  // a user's kernel with its tail, not a template
};
struct Ranking {
  std::string device;
  Job job;
  std::vector<RankedRegion> regions;
};

// Of the graph's regions with a product, for the sizes of args.dims on the device of args.device
// or args.as. Needs templates, no GPU where args.as is given.
Result<Ranking> rank(const ExplainArgs& args);
std::string to_text(const Ranking& ranking);
json::Value to_json(const Ranking& ranking);

}  // namespace attacca::cli
