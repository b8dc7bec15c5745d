// Which regions of a plan are computed by one launch, as those for queries, keys and values of one
// input are: each alone fills only a part of the device.
#pragma once

#include <functional>
#include <vector>

#include "problem/problem.hpp"
#include "run/cuda/decision.hpp"
#include "run/cuda/step.hpp"

namespace attacca::run {

// Groups of at least two regions, by their places in the list, ascending: products of one A with as
// many rows, the same epilogue and the same layouts. None reads what another one of its group, or a
// region between them, computes, so all may run where the first one does.
std::vector<std::vector<size_t>> regions_alike(const StepContext& context,
                                               const std::vector<fuse::Region>& regions);

// A candidate of one launch for several problems, and the seconds that the model expects.
struct Joint {
  launch::Candidate candidate;
  double expected = 0;
};

// Rows, or columns, of the clusters of tiles that hold so many: tiles of several problems of one
// launch are counted so, since a cluster computes one problem.
int64_t rows_of_whole_clusters(int64_t rows, const templates::Template& kernel);
int64_t columns_of_whole_clusters(int64_t columns, const templates::Template& kernel);

// All that compute the problems, the best first. `whole`: all of them as the one problem that the
// model knows. `has_signals`: whether the launch has signals (ptx/splice/several.hpp).
std::vector<Joint> ranked_joint(
    const StepContext& context, const std::vector<problem::Problem>& problems,
    const std::function<problem::Problem(const templates::Template&)>& whole, bool has_signals);

// The one launch, if it is faster than one for each region: as was measured, or is measured now if
// the options say so and allow more time than a quick tuning; else by the cost model, and also by
// the measured times of the regions alone, if there are any. `decisions`: how each would be
// computed alone.
std::optional<JointLaunch> decide_together(const StepContext& context,
                                           const std::vector<const fuse::Region*>& regions,
                                           const std::vector<problem::Problem>& problems,
                                           const std::vector<Decision>& decisions);

}  // namespace attacca::run
