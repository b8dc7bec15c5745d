// Versions of tools, asked once for all processes: the cache knows them by the file's path, size
// and time of change.
#pragma once

#include <functional>
#include <string>

#include "gpu/cache/cache.hpp"
#include "gpu/compile/compile.hpp"
#include "gpu/driver/library.hpp"

namespace attacca::gpu {

// "tools" in the cache's directory.
Cache& tool_versions();

// Errors: those of `ask`.
Result<std::string> file_version(const std::string& path, Cache& cache,
                                 const std::function<Result<std::string>()>& ask);

// What `describe`, which opens the library, says of it. The library stays closed where its file
// can be told (Library::locate) and was described before: NVRTC takes 10 ms to open.
using Describe = Result<ToolDescription> (*)();
Result<ToolDescription> describe_library(const LibrarySpec& spec, Cache& cache, Describe describe);
// By tool_versions(), once a process.
Result<ToolDescription> describe_library(const LibrarySpec& spec, Describe describe);

}  // namespace attacca::gpu
