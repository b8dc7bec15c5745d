// A user's kernel file, and the kernel selected in it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/commands.hpp"
#include "ptx/analysis/kernel_analysis.hpp"

namespace attacca::cli {

struct LoadedKernel {
  ptx::Module module;
  std::string entry;       // as the PTX names it
  ptx::OutputSpec output;  // as the analysis takes it
};

// Reads a .ptx, or compiles anything else as CUDA C++.
Result<LoadedKernel> load_kernel(const KernelArgs& args);

// The names of the parameters of the kernel that CUDA C++ defines; empty if it is not found.
std::vector<std::string> parameter_names(std::string_view source, std::string_view kernel);

}  // namespace attacca::cli
