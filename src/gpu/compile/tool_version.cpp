#include "gpu/compile/tool_version.hpp"

#include <filesystem>
#include <map>
#include <mutex>

#include "fmt/format.h"

#include "support/files/paths.hpp"

namespace attacca::gpu {

Cache& tool_versions() {
  static Cache& versions = *new Cache({.folder = cache_directory() + "/tools"});
  return versions;
}

Result<std::string> file_version(const std::string& path, Cache& cache,
                                 const std::function<Result<std::string>()>& ask) {
  std::error_code error;
  const auto bytes = std::filesystem::file_size(path, error);
  if (error) return ask();
  const auto written = std::filesystem::last_write_time(path, error).time_since_epoch().count();
  if (error) return ask();
  const std::string key =
      fmt::format("version of {}\nbytes {}\nwritten {}\n", path, bytes, written);
  ATTACCA_TRY(const Cache::Entry entry, cache.get(key, [&]() -> Result<std::vector<char>> {
    ATTACCA_TRY(const std::string version, ask());
    return std::vector<char>(version.begin(), version.end());
  }));
  return std::string(entry.bytes->begin(), entry.bytes->end());
}

Result<ToolDescription> describe_library(const LibrarySpec& spec, Cache& cache, Describe describe) {
  const std::string path = Library::locate(spec);
  if (path.empty()) return describe();
  const auto version = file_version(path, cache, [&]() -> Result<std::string> {
    ATTACCA_TRY(ToolDescription opened, describe());
    if (opened.path != path) return fail("another file was opened", opened.path);
    return std::move(opened.version);
  });
  return version ? ToolDescription{*version, path} : describe();
}

Result<ToolDescription> describe_library(const LibrarySpec& spec, Describe describe) {
  static auto& mutex = *new std::mutex;
  static auto& known = *new std::map<const LibrarySpec*, ToolDescription>;
  const std::lock_guard lock(mutex);
  if (const auto found = known.find(&spec); found != known.end()) return found->second;
  ATTACCA_TRY(ToolDescription described, describe_library(spec, tool_versions(), describe));
  return known.emplace(&spec, std::move(described)).first->second;
}

}  // namespace attacca::gpu
