// ptxas: assembles PTX in a process of its own.
#pragma once

#include <string>
#include <vector>

#include "jit/compile.hpp"

namespace attacca::jit {

Result<ToolDescription> describe_ptxas();
Result<std::vector<char>> assemble_with_ptxas(const std::string& ptx, const std::string& arch,
                                              const std::string& program);

}  // namespace attacca::jit
