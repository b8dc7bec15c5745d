#include "launch/helpers/widen_codes.hpp"

#include "fmt/format.h"

#include "launch/helpers/device_types.hpp"
#include "launch/helpers/widen_codes_source.hpp"

namespace attacca::launch {

Result<WidenCodes> WidenCodes::make(const std::shared_ptr<Toolbox>& toolbox,
                                    const ir::CodeFormat& format) {
  if (format.mxfp4) {
    ATTACCA_TRY(SourceKernel kernel,
                SourceKernel::make(toolbox, "attacca_mxfp4",
                                   std::string(kWidenEightSource) + kWidenMxFp4Source));
    return WidenCodes(std::move(kernel), format);
  }
  ATTACCA_TRY(const DeviceType scale, device_type(format.scales));
  ATTACCA_TRY(const DeviceType stored, device_type(format.dtype));
  const std::string defines = fmt::format(
      "#define BITS {}\n#define SIGNED {}\n#define BLOCK {}\n#define SCALE {}\n"
      "#define STORED {}\n",
      format.bits, int{format.is_signed}, format.block, scale.name, stored.name);
  ATTACCA_TRY(SourceKernel kernel, SourceKernel::make(toolbox, "attacca_decode",
                                                      defines + kWidenEightSource + kDecodeSource));
  return WidenCodes(std::move(kernel), format);
}

Status WidenCodes::launch(const void* codes, const void* scales, const void* zeros, void* to,
                          int64_t count, gpu::StreamHandle stream) const {
  if (count == 0) return {};
  constexpr int64_t kOfBlock = 8 * SourceKernel::kThreads;  // weights
  const uint32_t blocks = kernel_.blocks((count + kOfBlock - 1) / kOfBlock);
  if (format_.mxfp4) return kernel_.launch({blocks, 1, 1}, stream, codes, scales, to, count);
  return kernel_.launch({blocks, 1, 1}, stream, codes, scales, zeros, to, count, format_.zero);
}

}  // namespace attacca::launch
