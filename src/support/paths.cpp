#include "support/paths.hpp"

#include <cstdlib>
#include <filesystem>

namespace attacca {
namespace {

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

}  // namespace

std::string cache_directory() {
  if (const auto own = environment("ATTACCA_CACHE_DIR"); !own.empty()) return own;
  if (const auto xdg = environment("XDG_CACHE_HOME"); !xdg.empty()) return xdg + "/attacca";
  if (const auto home = environment("HOME"); !home.empty()) return home + "/.cache/attacca";
  return (std::filesystem::temp_directory_path() / "attacca").string();
}

}  // namespace attacca
