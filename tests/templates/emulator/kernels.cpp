#include "templates/emulator/kernels.hpp"

// As templates/kernels/host/open.cpp defines it.
void* attacca_encode_tiled = reinterpret_cast<void*>(&attacca::emulator::encode_map);

namespace attacca::emulator {

std::vector<Kernel>& kernels() {
  static std::vector<Kernel> all;
  return all;
}

bool add_kernel(const Kernel& kernel) {
  kernels().push_back(kernel);
  return true;
}

}  // namespace attacca::emulator
