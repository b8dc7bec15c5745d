#include "launch/helpers/scale_blocks.hpp"

#include "fmt/format.h"

#include "launch/helpers/device_types.hpp"

namespace attacca::launch {
namespace {

// Text in front of it defines X and SCALE, structs of dtypes, and AXES, the number of axes.
constexpr const char* kSource = R"cuda(
struct Axis {
  s64 extent, stride, scale_stride, block;
};
struct Axes {
  Axis axis[AXES];
};

extern "C" __global__ void __launch_bounds__(256)
attacca_scale_blocks(const X::Memory* x, const SCALE::Memory* scale, float* to, Axes axes) {
  s64 count = 1;
  for (int i = 0; i < AXES; ++i) count *= axes.axis[i].extent;
  for (s64 at = blockIdx.x * 256ll + threadIdx.x; at < count; at += gridDim.x * 256ll) {
    s64 rest = at, from = 0, block = 0;
#pragma unroll
    for (int i = AXES - 1; i >= 0; --i) {
      const Axis& axis = axes.axis[i];
      const s64 index = i == 0 ? rest : rest % axis.extent;
      rest /= axis.extent;
      from += index * axis.stride;
      block += index / axis.block * axis.scale_stride;
    }
    to[at] = (float)((double)X::load(x[from]) * (double)SCALE::load(scale[block]));
  }
}
)cuda";

}  // namespace

Result<ScaleBlocks> ScaleBlocks::make(const std::shared_ptr<Toolbox>& toolbox,
                                      const std::vector<BlockAxis>& axes, ir::DType x,
                                      ir::DType scale) {
  if (axes.empty() || axes.size() > kMostBlockAxes)
    return fail(fmt::format("scale_blocks over {} axes has no kernel", axes.size()), {},
                fmt::format("reshape to 1 to {} axes", kMostBlockAxes));
  ATTACCA_TRY(const DeviceType from, device_type(x));
  ATTACCA_TRY(const DeviceType by, device_type(scale));
  const std::string source = fmt::format("typedef {} X;\ntypedef {} SCALE;\n#define AXES {}\n{}",
                                         from.name, by.name, axes.size(), kSource);
  ATTACCA_TRY(SourceKernel kernel, SourceKernel::make(toolbox, "attacca_scale_blocks", source));
  return ScaleBlocks(std::move(kernel), axes);
}

Status ScaleBlocks::launch(const void* x, const void* scales, void* to,
                           gpu::StreamHandle stream) const {
  int64_t count = 1;
  for (const BlockAxis& axis : axes_) count *= axis.extent;
  const int64_t threads = SourceKernel::kThreads;
  // The kernel's parameter is all axes, which follow the first.
  return kernel_.launch({kernel_.blocks((count + threads - 1) / threads), 1, 1}, stream, x, scales,
                        to, axes_[0]);
}

}  // namespace attacca::launch
