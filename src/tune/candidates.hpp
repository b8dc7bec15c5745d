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
// `named`: patterns of names, for templates that this device runs only if they are named. Of a
// batch-invariant problem only those are ranked that sum in one order (templates/sum_order.hpp),
// which depends on neither m nor batch: that whose templates are expected to be the fastest over 1
// to 8192 rows.
launch::Candidates fused_candidates(const problem::Problem& problem,
                                    const templates::Catalog& catalog,
                                    const gpu::DeviceInfo& device,
                                    const std::vector<std::string>& named = {});

// A way of the unfused path with the seconds that the model expects it to take. `margin`: how much
// faster, as a logarithm, a template must be expected to be in order to be taken instead.
struct Estimated {
  launch::Candidate candidate;
  double seconds = 0, margin = 0;
};
// The unfused path with each part of the tail that the vendor library may compute, the fastest
// first. REQUIRES: a problem with products.
std::vector<Estimated> estimated_unfused(const problem::Problem& problem,
                                         const gpu::DeviceInfo& device);

// Whether to take the unfused path without measuring: nothing fuses, or the best template is not
// expected to win by the margin. Where the estimates were not learned from measurements of such a
// device, the unfused path must be expected to take less than half of the time.
bool prefers_unfused(const launch::Candidates& fused, const Estimated& unfused,
                     const gpu::DeviceInfo& device);

// Whether a fused candidate may turn out to be faster than the unfused path, so that measuring is
// worth its time. Of devices that the model did not learn from, it may.
bool may_gain(const problem::Problem& problem, const launch::Candidates& fused,
              const Estimated& unfused, const gpu::DeviceInfo& device);

// The variants of a fused candidate that are timed once its template has proved good: swizzles,
// raster orders, splits. The candidate itself is one of them.
std::vector<launch::Candidate> variants(const launch::Candidate& candidate,
                                        const templates::Template& kernel,
                                        const problem::Problem& problem,
                                        const gpu::DeviceInfo& device);

}  // namespace attacca::tune
