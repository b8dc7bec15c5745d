#include "support/files/folder.hpp"

#include <algorithm>

namespace attacca {

std::vector<std::filesystem::path> sorted_children(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> children;
  std::error_code error;
  for (std::filesystem::directory_iterator at(folder, error), end; !error && at != end;
       at.increment(error))
    children.push_back(at->path());
  std::sort(children.begin(), children.end());
  return children;
}

}  // namespace attacca
