// The machine code of a user's kernel, alone or with its tail, through the cache.
#pragma once

#include <vector>

#include "gpu/cache/cache.hpp"
#include "gpu/kernel/user_kernel.hpp"

namespace attacca::gpu {

struct KernelImageRequest {
  const ptx::Module* module = nullptr;
  int capability = 0;  // of the device: 90
  // The tail that joins the kernel, and the analysis that allows it: both or neither.
  const Tail* tail = nullptr;
  const ptx::Analysis* analysis = nullptr;
};

// An image for Module::load. REQUIRES: an eligible analysis.
Result<std::vector<char>> kernel_image(const KernelImageRequest& request,
                                       Cache& cache = Cache::shared(),
                                       const Toolchain& toolchain = {});

}  // namespace attacca::gpu
