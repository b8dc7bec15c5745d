// ptxas: assembles PTX in a process of its own.
#pragma once

#include <string>
#include <vector>

#include "jit/cache.hpp"
#include "jit/compile.hpp"

namespace attacca::jit {

Result<ToolDescription> describe_ptxas();

// "13.0.88". Asks the program where the cache does not know it by path, size and time of change.
Result<std::string> ptxas_version(const std::string& program, Cache& cache);

Result<std::vector<char>> assemble_with_ptxas(const std::string& ptx, const std::string& arch,
                                              const std::string& program);

}  // namespace attacca::jit
