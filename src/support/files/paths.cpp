#include "support/files/paths.hpp"

#include <filesystem>
#include <unistd.h>

#include "fmt/format.h"

#include "support/environment.hpp"

namespace attacca {

std::string cache_directory() {
  if (const auto own = environment("ATTACCA_CACHE_DIR"); !own.empty()) return own;
  // The XDG specification requires that relative paths are ignored.
  if (const auto xdg = environment("XDG_CACHE_HOME"); xdg.starts_with('/')) return xdg + "/attacca";
  if (const auto home = environment("HOME"); !home.empty()) return home + "/.cache/attacca";
  std::error_code none;
  const auto temporary = std::filesystem::temp_directory_path(none);
  return fmt::format("{}/attacca-{}", none ? "/tmp" : temporary.string(), geteuid());
}

}  // namespace attacca
