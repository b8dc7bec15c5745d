// The time that the unfused path is expected to take, without the vendor's library: an analytic
// estimate of its product and of its tail's kernel, times a correction that trees learned from
// measurements (bench/gpu/ranking.py, ranking_tree.hpp).
#pragma once

#include "gpu/driver/device.hpp"
#include "launch/vendor_epilogue.hpp"
#include "problem/problem.hpp"
#include "tune/model/features.hpp"

namespace attacca::tune {

// `way`: one of vendor_epilogues(problem). REQUIRES: a problem with products.
UnfusedFeatures unfused_features(const problem::Problem& problem, const launch::VendorEpilogue& way,
                                 const gpu::DeviceInfo& device);

struct ExpectedUnfused {
  double seconds = 0;
  double margin = 0;  // template_margin(); 0 on devices that the trees did not learn from
};
// REQUIRES: as unfused_features().
ExpectedUnfused expected_unfused(const problem::Problem& problem, const launch::VendorEpilogue& way,
                                 const gpu::DeviceInfo& device);

}  // namespace attacca::tune
