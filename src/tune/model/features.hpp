// What the learned corrections of the cost models know of a problem and a candidate: of a template
// (features.def) and of the unfused path (unfused_features.def).
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace attacca::tune {

#define ATTACCA_FEATURE(name, meaning) name,
enum class Feature : uint8_t {
#include "tune/model/features.def"
};
enum class UnfusedFeature : uint8_t {
#include "tune/model/unfused_features.def"
};
#undef ATTACCA_FEATURE

#define ATTACCA_FEATURE(name, meaning) #name,
inline constexpr std::string_view kFeatureNames[] = {
#include "tune/model/features.def"
};
inline constexpr std::string_view kUnfusedFeatureNames[] = {
#include "tune/model/unfused_features.def"
};
#undef ATTACCA_FEATURE

using Features = std::array<double, std::size(kFeatureNames)>;
using UnfusedFeatures = std::array<double, std::size(kUnfusedFeatureNames)>;

}  // namespace attacca::tune
