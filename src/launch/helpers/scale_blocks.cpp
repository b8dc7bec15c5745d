#include "launch/helpers/scale_blocks.hpp"

#include <algorithm>

#include "fmt/format.h"

#include "gpu/compile/assemble.hpp"
#include "gpu/compile/compile.hpp"
#include "launch/helpers/device_types.hpp"

namespace attacca::launch {
namespace {

constexpr uint32_t kThreads = 256;
constexpr int64_t kMostBlocks = 132 * 32;

// In front: X and SCALE are dtypes' structs, AXES the number of axes.
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
  const std::string source =
      fmt::format("{}\ntypedef {} X;\ntypedef {} SCALE;\n#define AXES {}\n{}", kDeviceTypes,
                  from.name, by.name, axes.size(), kSource);
  const std::string arch = fmt::format("sm_{}", toolbox->device().info().capability());
  ATTACCA_TRY(const std::string ptx,
              gpu::compile(source, {.arch = arch, .contract = false, .minimal = true}));
  ATTACCA_TRY(const std::vector<char> image, gpu::assemble(ptx, arch));
  ATTACCA_TRY(gpu::Module module, gpu::Module::load(toolbox->device(), image));
  ATTACCA_TRY(const gpu::Function function, module.function("attacca_scale_blocks"));
  return ScaleBlocks(toolbox, std::move(module), function, axes);
}

Status ScaleBlocks::launch(const void* x, const void* scales, void* to,
                           gpu::StreamHandle stream) const {
  int64_t count = 1;
  for (const BlockAxis& axis : axes_) count *= axis.extent;
  const auto blocks =
      static_cast<uint32_t>(std::clamp<int64_t>((count + kThreads - 1) / kThreads, 1, kMostBlocks));
  void* parameters[] = {&x, &scales, &to, const_cast<BlockAxis*>(axes_.data())};
  return function_.launch({{blocks, 1, 1}, {kThreads, 1, 1}, 0}, stream, parameters);
}

}  // namespace attacca::launch
