// A kernel that computes several problems in one launch. Its blocks are shared out along x: each
// sees the parameters of one problem, and its own place in the grid of that problem.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "ptx/syntax/syntax.hpp"

namespace attacca::ptx {

// The one parameter of such a kernel: those of the problems, one after the other, then for each
// problem a u32, the number of blocks along x of it and of those before it.
struct SeveralParameters {
  size_t stride = 0;   // bytes from the parameters of a problem to the next one's
  size_t ends_at = 0;  // where the numbers of blocks begin
  size_t bytes = 0;
};
// `bytes`, `alignment`: of the parameter of the kernel for one problem.
SeveralParameters parameters_of_several(size_t bytes, size_t alignment, size_t problems);

// What a kernel's parameters may take, since PTX 8.1 and CUDA 12.1, on sm_70 and later.
inline constexpr size_t kMostParameterBytes = 32764;

// `kernel` with its entry changed so that it computes `problems` problems, at least two. The grids
// of all problems must be equal along y and z, and begin with whole clusters along x. Errors: an
// entry with another number of parameters than one, or one that reads which cluster of the grid it
// runs in.
Result<std::string> compute_several(const Module& kernel, std::string_view entry, size_t problems);

}  // namespace attacca::ptx
