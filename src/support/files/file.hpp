// Whole files in memory.
#pragma once

#include <cstdint>
#include <limits>
#include <string>

#include "support/error.hpp"

namespace attacca {

// The most bytes that a reader accepts, and the fix for a longer file.
struct FileLimit {
  uint64_t bytes = std::numeric_limits<uint64_t>::max();
  std::string fix = {};
};

// All bytes of a file or pipe. Errors name the path in `what`.
Result<std::string> read_file(const std::string& path, const FileLimit& limit = {});

}  // namespace attacca
