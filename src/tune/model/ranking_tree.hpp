// What measurements taught of the analytic estimates: boosted regression trees of the features.
// bench/gpu/ranking.py fits them and writes ranking_tree.inc and unfused_tree.inc.
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

// What the trees were fitted to: the device and date, the number of problems, and the first 32 bits
// of the fingerprints of the templates that were measured.
struct Training {
  std::string_view measured;
  int problems;
  std::span<const uint32_t> templates;
};
const Training& training();

// How much faster, as a logarithm, the unfused path must be expected to be than the best template
// to be taken: by less, the expectations' errors on problems that were held out decide
// (ranking.py).
double unfused_margin();

}  // namespace attacca::tune
