// The samples: real and hand-written pairs of a kernel with a hole and an epilogue for it.
#pragma once

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "gtest/gtest.h"

#include "ptx/syntax/syntax.hpp"

namespace attacca::ptx::testing {

inline const std::filesystem::path kFolder =
    std::filesystem::path(ATTACCA_SOURCE_DIR) / "tests" / "ptx";

inline std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return std::move(text).str();
}

// The names of all pairs, sorted.
inline std::vector<std::string> sample_names() {
  constexpr std::string_view kEnding = ".kernel.ptx";
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(kFolder / "samples")) {
    const std::string file = entry.path().filename().string();
    if (file.ends_with(kEnding)) names.push_back(file.substr(0, file.size() - kEnding.size()));
  }
  std::sort(names.begin(), names.end());
  return names;
}

inline std::string kernel_text(const std::string& name) {
  return read_file(kFolder / "samples" / (name + ".kernel.ptx"));
}
inline std::string epilogue_text(const std::string& name) {
  return read_file(kFolder / "samples" / (name + ".epilogue.ptx"));
}

inline Module parsed(std::string text) {
  auto module = parse(std::move(text));
  if (!module) {
    ADD_FAILURE() << to_string(module.error());
    std::abort();
  }
  return *std::move(module);
}

}  // namespace attacca::ptx::testing
