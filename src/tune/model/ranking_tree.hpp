// What measurements taught of the analytic estimate: boosted regression trees of the features.
// bench/gpu/ranking.py fits them and writes ranking_tree.inc.
#pragma once

#include "tune/model/features.hpp"

namespace attacca::tune {

// The logarithm of the factor between the time of a template and its estimate.
double learned_correction(const Features& features);

}  // namespace attacca::tune
