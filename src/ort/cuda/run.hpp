// Runs a region on a GPU.
#pragma once

#include <memory>
#include <vector>

#include "ort/api.hpp"
#include "ort/cuda/gpu.hpp"
#include "ort/region.hpp"

namespace attacca::ort {

// On the kernel's stream; nothing is waited for if there is one and the outputs are on the GPU.
// Inputs and outputs on the host are copied. `inputs`, `outputs`: where the region's are among the
// node's. REQUIRES: an opened GPU, a region that was compiled for it. Throws Ort::Exception.
OrtStatus* run_on_gpu(Gpu& gpu, Region& region, OrtKernelContext* context,
                      const std::vector<size_t>& inputs, const std::vector<size_t>& outputs);

}  // namespace attacca::ort
