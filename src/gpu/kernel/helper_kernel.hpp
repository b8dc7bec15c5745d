// A kernel of Attacca's own beside the templates (a reduction, an unpacking, ...): CUDA C++ to a
// cubin, through the cache.
#pragma once

#include "gpu/kernel/build.hpp"

namespace attacca::gpu {

// Everything that its machine code depends on.
struct HelperRequest {
  std::string entry;     // the kernel's name, extern "C"; errors use it
  std::string source;    // self-contained CUDA C++
  int capability = 0;    // the device's, such as 90
  bool contract = true;  // as CompileOptions::contract
};

// Errors name the helper kernel; the compiler's log is in them.
Result<Cubin> build(const HelperRequest& request, Cache& cache = Cache::shared(),
                    const Toolchain& toolchain = {});

// Its key in the cache: one fact on each line.
Result<std::string> cache_key(const HelperRequest& request, const Toolchain& toolchain = {});

}  // namespace attacca::gpu
