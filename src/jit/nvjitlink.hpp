// nvJitLink: assembles PTX within this process.
#pragma once

#include <string>
#include <vector>

#include "jit/compile.hpp"

namespace attacca::jit {

Result<ToolDescription> describe_nvjitlink();
Result<std::vector<char>> assemble_with_nvjitlink(const std::string& ptx, const std::string& arch);

}  // namespace attacca::jit
