// What the learned corrections of the cost models know of a problem and a candidate: of a template
// (features.def), of the unfused path (unfused_features.def) and of a proposal of the vendor
// library (proposal_features.def).
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
enum class ProposalFeature : uint8_t {
#include "tune/model/proposal_features.def"
};
#undef ATTACCA_FEATURE

#define ATTACCA_FEATURE(name, meaning) #name,
inline constexpr std::string_view kFeatureNames[] = {
#include "tune/model/features.def"
};
inline constexpr std::string_view kUnfusedFeatureNames[] = {
#include "tune/model/unfused_features.def"
};
inline constexpr std::string_view kProposalFeatureNames[] = {
#include "tune/model/proposal_features.def"
#include "tune/model/unfused_features.def"
};
#undef ATTACCA_FEATURE

using Features = std::array<double, std::size(kFeatureNames)>;
using UnfusedFeatures = std::array<double, std::size(kUnfusedFeatureNames)>;
// The proposal's own, then the unfused path's.
using ProposalFeatures = std::array<double, std::size(kProposalFeatureNames)>;

}  // namespace attacca::tune
