#include "launch/helpers/gather_rows.hpp"

#include <algorithm>

#include "fmt/format.h"

#include "launch/helpers/device_types.hpp"
#include "launch/helpers/gather_rows_source.hpp"

namespace attacca::launch {
namespace {

// How many elements are copied at once: 16 bytes, where rows and steps are multiples of them.
int64_t piece_of(const RowGather& gather) {
  const problem::View &from = gather.from, &to = gather.to;
  const int64_t most = 16 / ir::size_of(from.dtype);
  const bool whole = from.column_stride == 1 && from.alignment >= 16 && to.alignment >= 16 &&
                     gather.columns % most == 0 && from.row_stride % most == 0 &&
                     to.row_stride % most == 0;
  return whole ? most : 1;
}

}  // namespace

Result<GatherRows> GatherRows::make(const std::shared_ptr<Toolbox>& toolbox,
                                    const RowGather& gather) {
  ATTACCA_TRY(const DeviceType index, device_type(gather.index.dtype));
  if (index.real)
    return fail(fmt::format("rows are named by {}", name(gather.index.dtype)), {},
                "give an index of s32 or s64");
  const int64_t width = piece_of(gather);
  const int64_t bytes = width * ir::size_of(gather.from.dtype);
  const char* piece = bytes == 16  ? "uint4"
                      : bytes == 8 ? "s64"
                      : bytes == 4 ? "unsigned"
                      : bytes == 2 ? "u16"
                                   : "u8";
  ATTACCA_TRY(SourceKernel kernel,
              SourceKernel::make(toolbox, "attacca_gather_rows",
                                 fmt::format("#define INDEX {}\n#define PIECE {}\n{}", index.name,
                                             piece, kGatherRowsSource)));
  return GatherRows(std::move(kernel), gather, width);
}

Status GatherRows::launch(const void* from, const void* index, void* to,
                          gpu::StreamHandle stream) const {
  const RowGather& g = gather_;
  const GatherParameters numbers{g.rows,
                                 g.columns / width_,
                                 g.extent,
                                 g.from.row_stride / width_,
                                 g.from.column_stride,
                                 g.to.row_stride / width_,
                                 g.index.column_stride};
  constexpr int64_t kRowsOfBlock = SourceKernel::kThreads / 32;
  const uint32_t blocks = kernel_.blocks((g.rows + kRowsOfBlock - 1) / kRowsOfBlock);
  return kernel_.launch({blocks, 1, 1}, stream, from, index, to, numbers);
}

}  // namespace attacca::launch
