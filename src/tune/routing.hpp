// How rows are divided among the groups of a grouped product that is timed.
#pragma once

#include <cstdint>
#include <vector>

namespace attacca::tune {

enum class Routing {
  Alike,  // each row's group is drawn, all with the same chance
  Zipf,   // the group in place i of a random order has a share of the rows proportional to 1 / i
};

// The ends of so many groups, the same ones in every process.
std::vector<int32_t> group_ends(Routing routing, int64_t groups, int64_t rows);

}  // namespace attacca::tune
