// Kernels that were compiled before, perhaps on another machine: their machine code, and what must
// be here as it was there.
#pragma once

#include <map>
#include <string>

#include "gpu/cache/cache.hpp"
#include "gpu/driver/device.hpp"
#include "support/error.hpp"

namespace attacca::launch {

struct BundledKernel {
  std::string entry;  // its name in the image
  gpu::Bytes image;   // a cubin
};

struct Bundle {
  std::string library;    // the version of Attacca
  std::string device;     // "NVIDIA H200"
  int capability = 0;     // 90
  std::string assembler;  // "ptxas 13.0.88"
  int driver = 0;         // the oldest whose version loads the kernels: 13000
  std::string builders;   // Catalog::builders_id()
  std::map<std::string, std::string, std::less<>> templates;       // metadata by name
  std::map<std::string, BundledKernel, std::less<>> kernels = {};  // by Toolbox's key
};

// REQUIRES: both are for the same device and library.
void merge(Bundle& into, Bundle more);

// Errors: another version of Attacca, another compute capability, a driver that is too old.
Status check_device(const Bundle& bundle, const gpu::Device& device);
// Errors: the library of builders was made from other sources.
Status check_builders(const Bundle& bundle, const std::string& builders);

}  // namespace attacca::launch
