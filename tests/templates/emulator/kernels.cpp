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

std::string launch(const Kernel& kernel, const attacca_gemm_arguments& arguments, uint32_t seed) {
  const attacca_template_entry& entry = kernel.record->entry;
  const attacca_info info = kernel.record->info();
  alignas(64) static char params[4096];
  if (entry.params_bytes > sizeof params) return "its parameters are too large";
  char reason[256] = "";
  Launch how;
  if (entry.build(&arguments, params, how.grid, reason, sizeof reason)) return reason;
  how.threads = info.threads;
  how.shared_bytes = info.shared_bytes;
  how.cluster = info.cluster_m * info.cluster_n * info.cluster_k;
  how.copies_at_once = seed % 2 == 0;
  how.slow_warp = seed % 4 >= 2;
  how.seed = seed;
  kernel.run(how, params);
  return "";
}

}  // namespace attacca::emulator
