// What the rounds of a tuning hand to each other.
#pragma once

#include <optional>
#include <vector>

#include "tune/choice.hpp"

namespace attacca::tune {

// The fastest first, what failed last.
void sort_by_time(std::vector<Trial>& trials);

// A later round's trials, sorted and marked as final, then what only the earlier ones know of:
// their times are those of a device in another state.
std::vector<Trial> merge_rounds(std::vector<Trial> earlier, std::vector<Trial> last);

// Of the final trials what may still win under load: up to three fused candidates and up to three
// of the unfused path that come near the best; at least one of each.
std::vector<launch::Candidate> contenders(const std::vector<Trial>& trials);

// The first that has a time, beside the first unfused one. None: nothing ran.
std::optional<Choice> choose(const std::vector<Trial>& trials);

}  // namespace attacca::tune
