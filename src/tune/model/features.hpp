// What the learned correction of the cost model knows of a template and a problem (features.def).
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace attacca::tune {

#define ATTACCA_FEATURE(name, meaning) name,
enum class Feature : uint8_t {
#include "tune/model/features.def"
};
#undef ATTACCA_FEATURE

#define ATTACCA_FEATURE(name, meaning) #name,
inline constexpr std::string_view kFeatureNames[] = {
#include "tune/model/features.def"
};
#undef ATTACCA_FEATURE

using Features = std::array<double, std::size(kFeatureNames)>;

}  // namespace attacca::tune
