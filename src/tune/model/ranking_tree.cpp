#include "tune/model/ranking_tree.hpp"

#include <algorithm>
#include <cmath>

namespace attacca::tune {
namespace {

constexpr size_t kDepth = 4;
constexpr size_t kBranches = (1 << kDepth) - 1;

struct Branch {
  Feature feature;
  float threshold;
};

// Branch i leads to 2 i + 1 where its feature is at most the threshold, else to 2 i + 2; what
// follows the last branch are the leaves.
struct Tree {
  Branch branches[kBranches];
  float leaves[kBranches + 1];
};

using enum Feature;
#include "tune/model/ranking_tree.inc"

// Far from what was measured the trees know nothing.
constexpr double kMostCorrection = 0.7;

double value(const Tree& tree, const Features& features) {
  size_t at = 0;
  while (at < kBranches) {
    const Branch& branch = tree.branches[at];
    at = 2 * at + (features[size_t(branch.feature)] <= branch.threshold ? 1 : 2);
  }
  return tree.leaves[at - kBranches];
}

}  // namespace

double learned_correction(const Features& features) {
  double sum = 0;
  for (const Tree& tree : kTrees) sum += value(tree, features);
  return std::clamp(sum, -kMostCorrection, kMostCorrection);
}

}  // namespace attacca::tune
