#include "templates/emulator/kernels.hpp"

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
