// The ways to compute a problem, ranked by what the model expects, and those that were left out.
#pragma once

#include <string>
#include <vector>

#include "gpu/driver/device.hpp"
#include "launch/candidate.hpp"
#include "problem/problem.hpp"
#include "templates/catalog.hpp"
#include "tune/options.hpp"

namespace attacca::tune {

// Moves what the filter leaves out from the ranked to the excluded.
void apply(const TemplateFilter& filter, launch::Candidates& candidates);

// Every template for this problem on this device: the legal ones ranked, the others with why not.
launch::Candidates fused_candidates(const problem::Problem& problem,
                                    const templates::Catalog& catalog,
                                    const gpu::DeviceInfo& device);

// A way with the seconds that the model expects of it.
struct Estimated {
  launch::Candidate candidate;
  double seconds = 0;
};
// The unfused path with each part of the tail that the vendor library may compute, the fastest
// first. REQUIRES: a problem with products.
std::vector<Estimated> estimated_unfused(const problem::Problem& problem,
                                         const gpu::DeviceInfo& device);

// Whether the unfused path is to be taken unmeasured: where nothing fuses, or both were learned
// from measurements of such a device and it wins by more than the model is uncertain about.
bool prefers_unfused(const launch::Candidates& fused, const Estimated& unfused,
                     const gpu::DeviceInfo& device);

// Whether a fused candidate may turn out to be faster than the unfused path, so that measuring is
// worth its time. Of devices that the model did not learn from, it may.
bool may_gain(const problem::Problem& problem, const launch::Candidates& fused,
              const Estimated& unfused, const gpu::DeviceInfo& device);

// The run-time variants of a fused candidate worth timing once its template has proved good:
// swizzles, raster orders, splits. Holds the candidate itself.
std::vector<launch::Candidate> variants(const launch::Candidate& candidate,
                                        const templates::Template& kernel,
                                        const problem::Problem& problem,
                                        const gpu::DeviceInfo& device);

}  // namespace attacca::tune
