// A user's kernel in a file: PTX, or CUDA C++ that NVRTC compiles.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ptx/syntax/syntax.hpp"

namespace attacca::gpu {

struct KernelFile {
  std::string file;             // .ptx, or any other name for CUDA C++
  std::string kernel;           // "my::kern<float, 16>", or a name; empty: the one kernel of a .ptx
  std::string arch = "sm_90a";  // of CUDA C++
  std::vector<std::string> includes;       // of CUDA C++: folders; CUDA's own are found
  std::vector<std::string> options;        // of CUDA C++: more of NVRTC's
  std::string kernel_option = "--kernel";  // what errors call the place where the name is given
};

struct LoadedKernel {
  ptx::Module module;
  std::string entry;  // the kernel's name there
};
Result<LoadedKernel> load_kernel(const KernelFile& from);

// The kernels of a file, given by their mangled names, that have the name `wanted`: mangled, or
// demangled with or without its template arguments and namespaces.
std::vector<std::string> matching_kernels(const std::vector<std::string>& names,
                                          std::string_view wanted);

}  // namespace attacca::gpu
