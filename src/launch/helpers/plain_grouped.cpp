#include "launch/helpers/plain_grouped.hpp"

#include "fmt/format.h"

#include "launch/helpers/device_types.hpp"
#include "launch/helpers/plain_grouped_source.hpp"

namespace attacca::launch {

Result<PlainGrouped> PlainGrouped::make(const std::shared_ptr<Toolbox>& toolbox,
                                        const GroupedMultiplication& problem) {
  ATTACCA_TRY(const DeviceType a, device_type(problem.a.dtype));
  ATTACCA_TRY(const DeviceType b, device_type(problem.b.dtype));
  ATTACCA_TRY(const DeviceType d, device_type(problem.d.dtype));
  if (ir::is_fp8(problem.d.dtype))
    return fail("no kernel stores an 8-bit float product", {}, "let it give f16 or bf16");
  const std::string source = fmt::format(
      "typedef {} A;\ntypedef {} B;\ntypedef {} D;\ntypedef {} SUM;\n#define SCALE_BLOCK {}\n{}",
      a.name, b.name, d.name, a.real || b.real ? "double" : "s64",
      problem.scales ? problem::kScaleBlock : 0, kPlainGroupedSource);
  ATTACCA_TRY(SourceKernel kernel,
              SourceKernel::make(toolbox, "attacca_grouped_product", source, true));
  return PlainGrouped(std::move(kernel), problem);
}

Status PlainGrouped::launch(const void* a, const void* b, const void* ends, void* d,
                            const problem::ScaleOperands<const void*>& scales,
                            gpu::StreamHandle stream) const {
  const GroupedMultiplication& p = problem_;
  const auto of_blocks = p.scales.value_or(problem::ScaleOperands<problem::View>{});
  const GroupedParameters numbers{p.m,
                                  p.n,
                                  p.k,
                                  p.groups,
                                  p.a.row_stride,
                                  p.a.column_stride,
                                  p.b.batch_stride,
                                  p.b.row_stride,
                                  p.b.column_stride,
                                  p.d.row_stride,
                                  p.d.column_stride,
                                  p.ends.column_stride,
                                  of_blocks.a.row_stride,
                                  of_blocks.a.column_stride,
                                  of_blocks.b.batch_stride,
                                  of_blocks.b.row_stride,
                                  of_blocks.b.column_stride};
  const int64_t threads = SourceKernel::kThreads;
  const uint32_t blocks = kernel_.blocks((p.m * p.n + threads - 1) / threads);
  return kernel_.launch({blocks, 1, 1}, stream, a, b, ends, d, scales.a, scales.b, numbers);
}

}  // namespace attacca::launch
