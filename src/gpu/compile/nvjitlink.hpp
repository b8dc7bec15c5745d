// nvJitLink: assembles PTX within this process.
#pragma once

#include <string>
#include <vector>

#include "gpu/compile/compile.hpp"

namespace attacca::gpu {

Result<ToolDescription> describe_nvjitlink();
Result<std::vector<char>> assemble_with_nvjitlink(const std::string& ptx, const std::string& arch);

}  // namespace attacca::gpu
