#include "support/files/file.hpp"

#include <filesystem>
#include <fstream>

#include "fmt/format.h"

namespace attacca {
namespace {

constexpr size_t kPiece = size_t{1} << 20;

Status check_length(uint64_t bytes, const std::string& path, const FileLimit& limit) {
  if (bytes <= limit.bytes) return {};
  return fail(fmt::format("{} has more than {} bytes", path, limit.bytes), {}, limit.fix);
}

}  // namespace

Result<std::string> read_file(const std::string& path, const FileLimit& limit) {
  std::ifstream file(path, std::ios::binary);
  std::string bytes;
  std::error_code no_size;  // for a pipe, whose length is known only after reading it
  if (const auto size = std::filesystem::file_size(path, no_size); !no_size) {
    ATTACCA_TRY_VOID(check_length(size, path, limit));
    bytes.reserve(size + kPiece);
  }
  while (file) {
    const size_t before = bytes.size();
    bytes.resize(before + kPiece);
    file.read(bytes.data() + before, kPiece);
    bytes.resize(before + static_cast<size_t>(file.gcount()));
    ATTACCA_TRY_VOID(check_length(bytes.size(), path, limit));
  }
  if (!file.is_open() || file.bad())
    return fail(fmt::format("cannot read {}", path), {}, "check the path");
  return bytes;
}

}  // namespace attacca
