#include "tune/model/ranking_tree.hpp"

#include <algorithm>
#include <cmath>
#include <span>

namespace attacca::tune {
namespace {

constexpr size_t kDepth = 6;
constexpr size_t kBranches = (1 << kDepth) - 1;

// Goes to the first side where the feature is at most the threshold.
struct Split {
  uint8_t feature;
  float threshold;
};

// Branch i is the index of a split and leads to 2 i + 1 or 2 i + 2. After the last branch come the
// leaves, in units of kLeaf.
struct Tree {
  uint16_t branches[kBranches];
  int16_t leaves[kBranches + 1];
};
constexpr double kLeaf = 1e-4;

namespace of_templates {
#include "tune/model/ranking_tree.inc"
}
namespace of_unfused {
#include "tune/model/unfused_tree.inc"
}
namespace of_doubt {
#include "tune/model/doubt_tree.inc"
}
namespace of_proposals {
#include "tune/model/proposal_tree.inc"
}
static_assert(std::ranges::equal(of_templates::kTrainedFeatures, kFeatureNames) &&
                  std::ranges::equal(of_unfused::kTrainedFeatures, kUnfusedFeatureNames) &&
                  std::ranges::equal(of_doubt::kTrainedFeatures, kUnfusedFeatureNames) &&
                  std::ranges::equal(of_proposals::kTrainedFeatures, kProposalFeatureNames),
              "features changed: run bench/gpu/ranking.py train");

// The trees are not used far from the measured problems.
constexpr double kMostCorrection = 2;

double correction(std::span<const Tree> trees, std::span<const Split> splits,
                  std::span<const double> features) {
  int sum = 0;
  for (const Tree& tree : trees) {
    size_t at = 0;
    while (at < kBranches) {
      const Split& split = splits[tree.branches[at]];
      at = 2 * at + (features[split.feature] <= split.threshold ? 1 : 2);
    }
    sum += tree.leaves[at - kBranches];
  }
  return std::clamp(sum * kLeaf, -kMostCorrection, kMostCorrection);
}

}  // namespace

double learned_correction(const Features& features) {
  return correction(of_templates::kTrees, of_templates::kSplits, features);
}

double template_margin(const UnfusedFeatures& features) {
  return of_doubt::kMargin * std::exp(correction(of_doubt::kTrees, of_doubt::kSplits, features));
}

double proposal_margin(bool aligned) {
  return aligned ? of_proposals::kMargin : of_proposals::kUnalignedMargin;
}

const Training& training() {
  static constexpr Training kTraining{of_templates::kMeasuredOn, of_templates::kProblems,
                                      of_templates::kTemplates};
  return kTraining;
}

double learned_unfused_correction(const UnfusedFeatures& features) {
  return correction(of_unfused::kTrees, of_unfused::kSplits, features);
}

double learned_proposal_correction(const ProposalFeatures& features) {
  return correction(of_proposals::kTrees, of_proposals::kSplits, features);
}

}  // namespace attacca::tune
