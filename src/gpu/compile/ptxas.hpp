// ptxas: assembles PTX in a process of its own.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "gpu/cache/cache.hpp"
#include "gpu/compile/compile.hpp"

namespace attacca::gpu {

Result<ToolDescription> describe_ptxas();

// "13.0.88". Runs the program if the cache does not have its version by path, size and time of
// change. Kills it after `limit`, which includes its start from a busy disk.
Result<std::string> ptxas_version(const std::string& program, Cache& cache,
                                  std::chrono::milliseconds limit = std::chrono::seconds(30));

Result<std::vector<char>> assemble_with_ptxas(const std::string& ptx, const std::string& arch,
                                              const std::string& program);

}  // namespace attacca::gpu
