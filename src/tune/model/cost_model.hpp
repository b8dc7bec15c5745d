// What a template is expected to take for a problem, without running it: the model behind the
// ranking. An analytic estimate; for what was measured on sm_90, times a correction that trees
// learned from measurements (bench/gpu/ranking.py, ranking_tree.hpp).
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

// How often the tiles run over the device, several ranges of K of a tile at once.
double waves(const problem::Problem& problem, const templates::Template& kernel, int splits,
             const gpu::DeviceInfo& device);

}  // namespace attacca::tune
