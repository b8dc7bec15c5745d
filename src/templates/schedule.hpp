// How a kernel's blocks and warps share the work. The cost model has a formula for each schedule.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace attacca::templates {

enum class Schedule : uint8_t {
  Cooperative,  // warpgroups share a tile
  Pingpong,     // warpgroups take alternate tiles
  SharedTail,   // clusters share the last tiles' K
  Streaming,    // a block holds all rows while weights pass by
  Dot,          // dot products, without tensor cores
  Multistage,   // tiles copied by cp.async
  Elementwise,  // tiles gathered, element by element if need be
  Chunks,       // no product
};

// As metadata has it: "shared_tail". nullopt: no schedule.
std::optional<Schedule> parse_schedule(std::string_view text);

}  // namespace attacca::templates
