#include "launch/helpers/source_kernel.hpp"

#include <algorithm>

#include "launch/helpers/device_types.hpp"

namespace attacca::launch {

uint32_t SourceKernel::blocks(int64_t work) const {
  constexpr int64_t kBlocksOfMultiprocessor = 32;
  const int64_t most = kBlocksOfMultiprocessor * toolbox_->device().info().sm_count;
  return static_cast<uint32_t>(std::clamp<int64_t>(work, 0, most));
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
