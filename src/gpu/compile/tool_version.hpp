// Versions of tools, asked once for all processes: the cache knows them by the file's path, size
// and time of change.
#pragma once

#include <functional>
#include <string>

#include "gpu/cache/cache.hpp"
#include "gpu/compile/compile.hpp"
#include "gpu/driver/library.hpp"

namespace attacca::gpu {

// The cache of versions, in the folder "tools" of the cache's directory.
Cache& tool_versions();

// The version of the program at `path`: from the cache, else from `ask`. Errors: those of `ask`.
Result<std::string> file_version(const std::string& path, Cache& cache,
                                 const std::function<Result<std::string>()>& ask);

// The description that `describe` gives of a library, which it opens. The library is not opened if
// Library::locate() finds its file and the cache has its description: opening NVRTC takes 10 ms.
using Describe = Result<ToolDescription> (*)();
Result<ToolDescription> describe_library(const LibrarySpec& spec, Cache& cache, Describe describe);
// The same with the cache tool_versions(), once a process.
Result<ToolDescription> describe_library(const LibrarySpec& spec, Describe describe);

}  // namespace attacca::gpu
