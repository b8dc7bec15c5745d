#include "support/files/paths.hpp"

#include <dlfcn.h>
#include <filesystem>
#include <link.h>
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

std::string own_path() {
  Dl_info info;
  link_map* map = nullptr;
  if (dladdr1(reinterpret_cast<const void*>(&own_path), &info, reinterpret_cast<void**>(&map),
              RTLD_DL_LINKMAP) == 0)
    return {};
  // A program has no name there, and info has its argv[0], which may be a name found on PATH.
  std::error_code none;
  return std::filesystem::canonical(map->l_name[0] ? map->l_name : "/proc/self/exe", none).string();
}

std::string installed_folder(const std::string& name) {
  const std::filesystem::path own = own_path();
  return own.empty() ? "" : (own.parent_path().parent_path() / "share/attacca" / name).string();
}

}  // namespace attacca
