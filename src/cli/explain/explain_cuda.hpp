// `attacca explain --device cuda`: the ranking for each product, and why other templates are
// excluded.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/commands.hpp"
#include "cli/job.hpp"
#include "launch/candidate.hpp"
#include "run/shared/target.hpp"
#include "support/text/json.hpp"
#include "tune/candidates.hpp"

namespace attacca::cli {

struct RankedRegion {
  size_t number;
  launch::Candidates candidates;
  bool is_kernel = false;                       // a user's kernel with its tail, not a template
  std::optional<tune::Estimated> unfused = {};  // none: it may not be taken
  bool prefers_unfused = false;
  bool names_rows = false;                // an index names the rows of A
  std::vector<bool> gathers_before = {};  // one for each ranked candidate
  bool has_codes = false;                 // B is weights in codes
  std::vector<bool> widens_before = {};   // one for each ranked candidate
  size_t templates = 0;                   // that were asked
};
struct Ranking {
  std::string device;
  Job job;
  std::vector<RankedRegion> regions;
};

// Ranks the templates of each region with a product, for the sizes of args.dims. Needs templates,
// but no GPU.
// REQUIRES: prepared for a device.
Result<Ranking> rank(Job job, const run::Prepared& prepared, const ExplainArgs& args);
std::string to_text(const Ranking& ranking);
json::Value to_json(const Ranking& ranking);

}  // namespace attacca::cli
