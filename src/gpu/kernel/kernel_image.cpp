#include "gpu/kernel/kernel_image.hpp"

#include "fmt/format.h"

#include "gpu/devices.hpp"
#include "gpu/kernel/sources.hpp"
#include "support/check.hpp"
#include "support/hash.hpp"

namespace attacca::gpu {
namespace {

Result<std::string> key_of(const KernelImageRequest& request, const Toolchain& toolchain) {
  ATTACCA_TRY(const std::string versions, toolchain.versions());
  const std::string text = print(*request.module);
  std::string key = fmt::format("sources {}\ntools {}\nuser kernel {} bytes {:016x}\narch {}\n",
                                kernel_sources(), versions, text.size(), hash64(text),
                                machine_arch(target_of(*request.module), request.capability));
  if (request.tail == nullptr) return key;
  const ptx::Analysis& analysis = *request.analysis;
  key += fmt::format("entry {}\noutput {}+{} of {} bytes\nthreads {}\n",
                     analysis.bodies.at(0).function->name, analysis.parameter, analysis.offset,
                     analysis.element_bytes, request.tail->signature.threads);
  key += request.tail->source;
  for (const auto& [count, pack] : request.tail->packs) key += pack.source;
  return key;
}

Result<std::vector<char>> make(const KernelImageRequest& request, const Toolchain& toolchain) {
  const std::string arch = machine_arch(target_of(*request.module), request.capability);
  if (request.tail == nullptr) return toolchain.assemble(print(*request.module), arch);
  ATTACCA_TRY(const ptx::FusedKernel fused,
              fuse_kernel(*request.module, *request.analysis, *request.tail, toolchain));
  return toolchain.assemble(fused.ptx, arch);
}

}  // namespace

Result<std::vector<char>> kernel_image(const KernelImageRequest& request, Cache& cache,
                                       const Toolchain& toolchain) {
  ATTACCA_CHECK((request.tail == nullptr) == (request.analysis == nullptr),
                "a tail without an analysis");
  ATTACCA_TRY(const std::string key, key_of(request, toolchain));
  ATTACCA_TRY(const Cache::Entry entry, cache.get(key, [&] { return make(request, toolchain); }));
  return *entry.bytes;
}

}  // namespace attacca::gpu
