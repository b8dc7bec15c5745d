// The ways to compute a problem, and those that were left out, each with its reason.
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

// The run-time variants of a fused candidate worth timing once its template has proved good:
// swizzles, raster orders, splits. Holds the candidate itself.
std::vector<launch::Candidate> variants(const launch::Candidate& candidate,
                                        const templates::Template& kernel,
                                        const problem::Problem& problem,
                                        const gpu::DeviceInfo& device);

}  // namespace attacca::tune
