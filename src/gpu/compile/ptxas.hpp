// ptxas: assembles PTX in a process of its own.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "gpu/cache/cache.hpp"
#include "gpu/compile/compile.hpp"

namespace attacca::gpu {

Result<ToolDescription> describe_ptxas();

// "13.0.88". Asks the program where the cache does not know it by path, size and time of change;
// kills one that does not answer within `limit`, a start from a busy disk included.
Result<std::string> ptxas_version(const std::string& program, Cache& cache,
                                  std::chrono::milliseconds limit = std::chrono::seconds(30));

Result<std::vector<char>> assemble_with_ptxas(const std::string& ptx, const std::string& arch,
                                              const std::string& program);

}  // namespace attacca::gpu
