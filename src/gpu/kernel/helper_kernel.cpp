#include "gpu/kernel/helper_kernel.hpp"

#include "fmt/format.h"

#include "gpu/devices.hpp"
#include "gpu/kernel/sources.hpp"
#include "support/hash.hpp"

namespace attacca::gpu {

Result<std::string> cache_key(const HelperRequest& request, const Toolchain& toolchain) {
  ATTACCA_TRY(const std::string versions, toolchain.versions());
  return fmt::format("sources {}\ntools {}\nhelper {}\narch {}\ncontract {}\n{} bytes {:016x}\n",
                     kernel_sources(), versions, request.entry, plain_arch(request.capability),
                     request.contract, request.source.size(), hash64(request.source));
}

Result<Cubin> build(const HelperRequest& request, Cache& cache, const Toolchain& toolchain) {
  ATTACCA_TRY(const std::string key, cache_key(request, toolchain));
  const auto make = [&]() -> Result<std::vector<char>> {
    const std::string arch = plain_arch(request.capability);
    ATTACCA_TRY(
        const std::string ptx,
        toolchain.compile(request.source,
                          {.arch = arch, .contract = request.contract, .helper = request.entry}));
    return toolchain.assemble(ptx, arch);
  };
  ATTACCA_TRY(Cache::Entry entry, cache.get(key, make));
  return Cubin{
      std::move(entry.bytes), request.entry, {.cached = entry.origin != Cache::Origin::Made}};
}

}  // namespace attacca::gpu
