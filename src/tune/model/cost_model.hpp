// The time that a template is expected to take for a problem, by which templates are ranked: an
// analytic estimate. On sm_90 it is multiplied by a correction that trees learned from measurements
// (bench/gpu/ranking.py, ranking_tree.hpp).
#pragma once

#include "epilogue/hole.hpp"
#include "gpu/driver/device.hpp"
#include "problem/problem.hpp"
#include "templates/template.hpp"
#include "tune/model/features.hpp"

namespace attacca::tune {

// REQUIRES: a problem with products, and a binding that legality() gave for it.
Features features(const problem::Problem& problem, const templates::Template& kernel,
                  const epilogue::Binding& binding, const gpu::DeviceInfo& device);

// Seconds. REQUIRES: as features().
double expected_seconds(const problem::Problem& problem, const templates::Template& kernel,
                        const epilogue::Binding& binding, const gpu::DeviceInfo& device);

// The number of waves in which the tiles run; several ranges of K of one tile run at once.
double waves(const problem::Problem& problem, const templates::Template& kernel, int splits,
             const gpu::DeviceInfo& device);

}  // namespace attacca::tune
