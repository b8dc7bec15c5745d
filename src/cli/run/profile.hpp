// `attacca run --profile` and `--trace`: the time of each region, and of each kind of region.
#pragma once

#include <string>
#include <vector>

#include "fuse/fuse.hpp"
#include "run/shared/region_time.hpp"
#include "support/text/json.hpp"

namespace attacca::cli {

struct Profile {
  struct Region {
    size_t number = 0;  // from 1, as `explain` counts
    std::string kind, ops;
    std::vector<std::string> outputs;  // "h: f32[4, 8]"
    double seconds = 0;                // the median
  };
  // Regions of the same ops.
  struct Ops {
    std::string ops;
    size_t regions = 0;
    double seconds = 0;
  };
  std::vector<Region> regions;  // the slowest first; none that ran when the plan was made
  std::vector<Ops> ops;         // the slowest first
  double seconds = 0;           // of all regions
  size_t rounds = 0;
  // A typical round: the one whose sum is the median.
  std::vector<run::RegionTime> typical;
};

// `rounds`: of one plan's regions, the same in each. REQUIRES: at least one round.
Profile profile_of(const std::vector<std::vector<run::RegionTime>>& rounds,
                   const fuse::Partition& partition);

std::string to_text(const Profile& profile);
json::Value to_json(const Profile& profile);
// The times of the typical round, for chrome://tracing and ui.perfetto.dev. `process`: its name
// there.
json::Value trace_json(const Profile& profile, const fuse::Partition& partition,
                       const std::string& process);

}  // namespace attacca::cli
