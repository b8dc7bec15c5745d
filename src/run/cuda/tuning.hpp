// How the kernels of a GPU are chosen for a region and its sizes.
#pragma once

#include <cstdint>
#include <iterator>
#include <optional>
#include <string_view>

namespace attacca::run {

enum class Tuning : uint8_t {
  Known,    // the tuning database's choice, else a shipped one, else the model's
  Measure,  // the known choice of as thorough a tuning, else measured and stored; the model's if
            // measuring fails
  Always,   // measured and stored
  Unfused,  // the unfused path
  Model,    // the model's choice, whatever is known
};

inline constexpr std::string_view kTunings[] = {"known", "measure", "always", "unfused", "model"};

inline std::string_view name(Tuning tuning) {
  return kTunings[static_cast<size_t>(tuning)];
}

inline std::optional<Tuning> parse_tuning(std::string_view text) {
  for (size_t i = 0; i < std::size(kTunings); ++i)
    if (text == kTunings[i]) return static_cast<Tuning>(i);
  return std::nullopt;
}

}  // namespace attacca::run
