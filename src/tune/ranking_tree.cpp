#include "tune/ranking_tree.hpp"

#include <algorithm>
#include <cmath>

namespace attacca::tune {
namespace {

// A child >= 0 is a branch, -1 - i leaf i.
struct Branch {
  int feature;
  double threshold;
  int below, above;  // feature <= threshold, and beyond
};

// constant + sum of slopes[i] * features[i].
struct Leaf {
  double constant;
  double slopes[std::size(kFeatureNames)];
};

#include "tune/ranking_tree.inc"

// Far from what was measured a line goes anywhere.
constexpr double kMostCorrection = 0.7;

}  // namespace

double learned_correction(const Features& features) {
  double sum = 0;
  for (const int root : kRoots) {
    int at = root;
    while (at >= 0) {
      const Branch& branch = kBranches[at];
      at = features[size_t(branch.feature)] <= branch.threshold ? branch.below : branch.above;
    }
    const Leaf& leaf = kLeaves[-1 - at];
    sum += leaf.constant;
    for (size_t i = 0; i < features.size(); ++i) sum += leaf.slopes[i] * features[i];
  }
  return std::clamp(sum / std::size(kRoots), -kMostCorrection, kMostCorrection);
}

}  // namespace attacca::tune
