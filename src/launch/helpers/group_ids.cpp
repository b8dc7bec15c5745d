#include "launch/helpers/group_ids.hpp"

#include "launch/helpers/group_ids_source.hpp"

namespace attacca::launch {

Result<GroupIds> GroupIds::make(const std::shared_ptr<Toolbox>& toolbox) {
  ATTACCA_TRY(SourceKernel kernel,
              SourceKernel::make(toolbox, "attacca_group_ids", kGroupIdsSource));
  return GroupIds(std::move(kernel));
}

Status GroupIds::launch(const void* ends, int64_t groups, int64_t stride, void* to, int64_t rows,
                        gpu::StreamHandle stream) const {
  const uint32_t blocks =
      kernel_.blocks((rows + SourceKernel::kThreads - 1) / SourceKernel::kThreads);
  return kernel_.launch({blocks, 1, 1}, stream, ends, to, groups, stride, rows);
}

}  // namespace attacca::launch
