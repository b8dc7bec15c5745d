// What the unfused path is expected to take with each algorithm that the vendor's library proposes,
// without running it: an analytic estimate by the algorithm's tiling, times a correction that trees
// learned from measurements (bench/gpu/ranking.py, ranking_tree.hpp).
#pragma once

#include <span>

#include "gpu/driver/device.hpp"
#include "launch/unfused.hpp"
#include "launch/vendor_epilogue.hpp"
#include "problem/problem.hpp"
#include "tune/model/features.hpp"

namespace attacca::tune {

// `way`: one of vendor_epilogues(problem). REQUIRES: a problem with products, whose K is not 0.
ProposalFeatures proposal_features(const problem::Problem& problem,
                                   const launch::VendorEpilogue& way,
                                   const launch::VendorAlgorithm& algorithm,
                                   const gpu::DeviceInfo& device);

// The proposal with the least expected time, if it is expected to win by more than a margin over
// the library's first one for each way; else that one of these. The very first one where the trees
// were not trained on such a device, or the library does not compute every proposal's product.
// REQUIRES: at least one.
const launch::Proposal& best_proposal(const problem::Problem& problem,
                                      std::span<const launch::Proposal> proposals,
                                      const gpu::DeviceInfo& device);

}  // namespace attacca::tune
