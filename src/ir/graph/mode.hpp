// The numerics contract by which a plan is compiled; part of every key.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace attacca::ir {

// Fp32: the accumulator enters in f32, every node computes in its declared compute type (f32 where
// none is declared) and rounds only where the graph casts and at the outputs.
// Eager: rounds exactly where the unfused graph would. From the same accumulators, the results are
// bit-identical to those of the graph run op by op. Nothing is folded.
enum class Mode : uint8_t { Fp32, Eager };

inline std::string_view name(Mode mode) {
  return mode == Mode::Fp32 ? "fp32" : "eager";
}
inline std::optional<Mode> parse_mode(std::string_view text) {
  if (text == "fp32") return Mode::Fp32;
  if (text == "eager") return Mode::Eager;
  return std::nullopt;
}

}  // namespace attacca::ir
