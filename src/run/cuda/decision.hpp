// How one region is computed, and why.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fuse/fuse.hpp"
#include "support/text/json.hpp"
#include "tune/choice.hpp"

namespace attacca::run {

// Where a choice comes from.
enum class Source {
  Measured,  // now
  Bundle,    // stored in a bundle, or below in a plan's file, a database, or the installation
  Plan,
  Database,
  Shipped,
  Model,
  Analysis,  // of a user's kernel
  OnlyWay,
  Fallback,  // the unfused path, since the kernel that was chosen could not be made
};
std::string_view to_string(Source source);  // "measured", "only way"

// One launch that computes several regions (together.hpp).
struct JointLaunch {
  launch::Candidate candidate;
  size_t regions = 2;
  Source source = Source::Model;
  // The times of the launch and of a launch for each region, measured or expected by the model.
  double seconds = 0, apart_seconds = 0;
};

struct Decision {
  std::shared_ptr<const fuse::Region> region;  // keeps the plan's partition, which it is part of
  launch::Candidate candidate;                 // of the region alone
  // If set, how it is computed instead, together with other regions.
  std::optional<JointLaunch> joint = {};
  bool gathers_before = false;  // a kernel gathers rows of A before the candidate's
  bool widens_before = false;   // a kernel widens weights in codes before the candidate's
  Source source = Source::OnlyWay;
  std::string remark;   // why it was not measured, or what failed; empty: nothing did
  tune::ChoiceKey key;  // its key in the database
  double seconds = 0, unfused_seconds = 0;  // where measured, else 0
  bool quick = false;                       // measured by a quick tuning
  // Where the model chose, else 0: of the choice, and of the two that it chose from, 0 if unknown.
  double expected_seconds = 0;
  double expected_fused_seconds = 0, expected_unfused_seconds = 0;
  std::vector<tune::Trial> trials;            // where measured now
  std::optional<launch::Candidate> modelled;  // where measured now: what the model would choose
  std::vector<launch::Exclusion> excluded;
  std::string not_stored;  // why the database could not store a measured choice

  const launch::Candidate& used() const { return joint ? joint->candidate : candidate; }
  size_t together() const { return joint ? joint->regions : 1; }
};

// The region's number, from 1 as explain_text counts.
size_t region_number(const Decision& decision, const fuse::Partition& partition);

// {"region", "candidate" (that is used), "source", "seconds", "unfused_seconds", "problem",
//  "shape", "trials": [{"candidate", "final", "seconds" or "failed"}],
//  "excluded": [{"template", "reason"}]}, and, where they are set, "remark", "modelled",
// "expected_seconds", "expected_fused_seconds", "expected_unfused_seconds", "gathers_before",
// "widens_before", "together", "together_source", "together_seconds" and "apart_seconds", and
// "not_stored".
// `region`: its number.
json::Value decision_json(const Decision& decision, size_t region);
// A list of them. `partition`: that of the decisions' regions.
json::Value decisions_json(std::span<const Decision> decisions, const fuse::Partition& partition);
json::Value exclusions_json(std::span<const launch::Exclusion> exclusions);

}  // namespace attacca::run
