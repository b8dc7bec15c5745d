#include "launch/helpers/widen_mxfp4.hpp"

#include "launch/helpers/widen_mxfp4_source.hpp"

namespace attacca::launch {

Result<WidenMxFp4> WidenMxFp4::make(const std::shared_ptr<Toolbox>& toolbox) {
  ATTACCA_TRY(SourceKernel kernel, SourceKernel::make(toolbox, "attacca_mxfp4", kWidenMxFp4Source));
  return WidenMxFp4(std::move(kernel));
}

Status WidenMxFp4::launch(const void* codes, const void* scales, void* to, int64_t count,
                          gpu::StreamHandle stream) const {
  if (count == 0) return {};
  constexpr int64_t kThreads = SourceKernel::kThreads;
  const uint32_t blocks = kernel_.blocks((count + kThreads - 1) / kThreads);
  return kernel_.launch({blocks, 1, 1}, stream, codes, scales, to, count);
}

}  // namespace attacca::launch
