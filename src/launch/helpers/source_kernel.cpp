#include "launch/helpers/source_kernel.hpp"

#include <algorithm>

#include "launch/helpers/device_types.hpp"

namespace attacca::launch {

uint32_t SourceKernel::blocks(int64_t work) {
  constexpr int64_t kMostBlocks = 132 * 32;
  return static_cast<uint32_t>(std::clamp<int64_t>(work, 0, kMostBlocks));
}

Result<SourceKernel> SourceKernel::make(const std::shared_ptr<Toolbox>& toolbox,
                                        const std::string& entry, const std::string& source,
                                        bool contract) {
  ATTACCA_TRY(auto kernel, toolbox->kernel({.entry = entry,
                                            .source = kDeviceTypes + source,
                                            .capability = toolbox->device().info().capability(),
                                            .contract = contract}));
  return SourceKernel(toolbox, std::move(kernel));
}

}  // namespace attacca::launch
