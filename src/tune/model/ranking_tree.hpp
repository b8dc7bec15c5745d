// Corrections of the analytic estimates, learned from measurements: boosted regression trees.
// bench/gpu/ranking.py fits them and writes ranking_tree.inc, unfused_tree.inc, doubt_tree.inc and
// proposal_tree.inc.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "tune/model/features.hpp"

namespace attacca::tune {

// The logarithm of the factor between the time of a template and its estimate.
double learned_correction(const Features& features);
// Likewise of the unfused path.
double learned_unfused_correction(const UnfusedFeatures& features);
// Likewise of a proposal of the vendor library for it.
double learned_proposal_correction(const ProposalFeatures& features);

// The data behind the trees: device and date, the number of problems, and the first 32 bits of the
// fingerprints of the templates that were measured.
struct Training {
  std::string_view measured;
  int problems;
  std::span<const uint32_t> templates;
};
const Training& training();

// How much faster than the unfused path, as a logarithm, the best template must be expected to be
// in order to be taken: by how far the two expected times are usually off for such problems, times
// a factor that ranking.py chooses.
double template_margin(const UnfusedFeatures& features);
// Likewise a proposal than the library's first one, the same for all problems. `aligned`: all rows
// of A and B to 16 bytes.
double proposal_margin(bool aligned);

}  // namespace attacca::tune
