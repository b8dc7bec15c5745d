// What a template is expected to take for a problem, without running it: the model behind the
// ranking. An analytic estimate; for what was measured on sm_90, times a correction that trees
// learned from measurements (bench/gpu/ranking.py, ranking_tree.hpp).
#pragma once

#include <array>
#include <string_view>

#include "epilogue/hole.hpp"
#include "gpu/driver/device.hpp"
#include "problem/problem.hpp"
#include "templates/catalog.hpp"

namespace attacca::tune {

#define ATTACCA_FEATURE(name, meaning) name,
enum class Feature : uint8_t {
#include "tune/features.def"
};
#undef ATTACCA_FEATURE

#define ATTACCA_FEATURE(name, meaning) #name,
inline constexpr std::string_view kFeatureNames[] = {
#include "tune/features.def"
};
#undef ATTACCA_FEATURE

using Features = std::array<double, std::size(kFeatureNames)>;

// REQUIRES: a problem with products, and a binding that place() gave for it.
Features features(const problem::Problem& problem, const templates::Template& kernel,
                  const epilogue::Binding& binding, const gpu::DeviceInfo& device);

// Seconds. REQUIRES: as features().
double expected_seconds(const problem::Problem& problem, const templates::Template& kernel,
                        const epilogue::Binding& binding, const gpu::DeviceInfo& device);

// How often the tiles run over the device, several ranges of K of a tile at once.
double waves(const problem::Problem& problem, const templates::Template& kernel, int splits,
             const gpu::DeviceInfo& device);

}  // namespace attacca::tune
