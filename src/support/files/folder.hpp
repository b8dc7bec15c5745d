// What a folder holds.
#pragma once

#include <filesystem>
#include <vector>

namespace attacca {

// The paths in a folder, sorted; none if it cannot be read.
std::vector<std::filesystem::path> sorted_children(const std::filesystem::path& folder);

}  // namespace attacca
