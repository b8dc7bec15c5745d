#include "launch/operand_source.hpp"

#include "launch/arguments.hpp"
#include "launch/cublaslt.hpp"
#include "launch/fused.hpp"
#include "launch/helpers/unpack.hpp"
#include "support/reused.hpp"

namespace attacca::launch {
namespace {

using epilogue::Role;
using ir::DType;

problem::View turned(problem::View view) {
  std::swap(view.row_stride, view.column_stride);
  return view;
}

// A copy of one operand, dense and converted.
problem::Problem copy_problem(const problem::View& from, DType to, int64_t rows, int64_t columns,
                              int64_t batch, Contiguous contiguous) {
  problem::Problem copy;
  copy.m = rows;
  copy.n = columns;
  copy.batch = batch;
  copy.epilogue.domain = {batch, rows, columns};
  epilogue::Input input;
  input.role = from.row_stride != 0 ? (from.column_stride != 0 ? Role::Full : Role::Column)
                                    : (from.column_stride != 0 ? Role::Row : Role::Scalar);
  input.dtype = from.dtype;
  input.access = {0, {from.batch_stride, from.row_stride, from.column_stride}};
  copy.epilogue.inputs.push_back(std::move(input));
  epilogue::Output output;
  output.dtype = to;
  const bool along_rows = contiguous == Contiguous::Rows;
  const int64_t row_stride = along_rows ? 1 : columns, column_stride = along_rows ? rows : 1;
  output.access = {0, {rows * columns, row_stride, column_stride}};
  copy.epilogue.outputs.push_back(std::move(output));
  copy.views.inputs.push_back(from);
  copy.views.inputs[0].offset = 0;
  copy.views.outputs.push_back({.dtype = to,
                                .row_stride = row_stride,
                                .column_stride = column_stride,
                                .batch_stride = rows * columns});
  return copy;
}

}  // namespace

Result<void*> Source::ready(const Memory& memory, char* workspace, gpu::StreamHandle stream) const {
  if (!copy) return first_element(memory.operand, from);
  void* dense = workspace + copy_at;
  ATTACCA_TRY_VOID(copy(memory, dense, stream));
  return dense;
}

Source as_it_lies(const problem::View& view) {
  return {.view = view, .from = view};
}

Result<Source> make_source(const std::shared_ptr<Toolbox>& toolbox, const problem::View& view,
                           DType dtype, int64_t rows, int64_t columns, int64_t batch,
                           Contiguous contiguous, Arena& arena) {
  Source source = as_it_lies(view);
  source.view.offset = 0;
  const int64_t stride = contiguous == Contiguous::Rows ? view.row_stride : view.column_stride;
  const bool lies_right = contiguous == Contiguous::Either || stride == 1;
  if (view.dtype == dtype && lies_right && vendor_takes(view, rows, columns)) return source;
  const int64_t batches = view.batch_stride == 0 ? 1 : batch;
  // The copy's kernel is fast along columns.
  const bool turn =
      view.row_stride == 1 && view.column_stride != 1 && contiguous != Contiguous::Columns;
  const problem::Problem copy =
      turn ? copy_problem(turned(view), dtype, columns, rows, batches, Contiguous::Columns)
           : copy_problem(view, dtype, rows, columns, batches, contiguous);
  source.view = turn ? turned(copy.views.outputs[0]) : copy.views.outputs[0];
  if (batches == 1) source.view.batch_stride = 0;
  source.copy_at = arena.take(static_cast<size_t>(batches * rows * columns * ir::size_of(dtype)));
  if (rows * columns == 0) return source;
  ATTACCA_TRY(auto made, make_pointwise(toolbox, copy));
  const Addresses none{.inputs = {nullptr}, .outputs = {nullptr}};
  source.copy = [view, none, kernel = std::shared_ptr<const Runnable>(std::move(made)),
                 addresses = std::make_shared<Reused<Addresses>>(none)](
                    const Source::Memory& from, void* dense, gpu::StreamHandle stream) {
    const auto at = addresses->take([&] { return none; });
    at->inputs[0] = first_element(from.operand, view);
    at->outputs[0] = dense;
    return kernel->launch(*at, nullptr, stream);
  };
  return source;
}

Result<Source> unpacked_source(const std::shared_ptr<Toolbox>& toolbox, const problem::View& b,
                               const ir::PackedLayout& layout, DType dtype, Arena& arena) {
  Source source = as_it_lies(b);
  source.view.dtype = dtype;
  source.copy_at = arena.take(static_cast<size_t>(layout.n * layout.k * ir::size_of(dtype)));
  ATTACCA_TRY(Unpack made, Unpack::make(toolbox, layout, b.dtype, dtype));
  source.copy = [b, kernel = std::move(made)](const Source::Memory& from, void* dense,
                                              gpu::StreamHandle stream) {
    return kernel.launch(first_element(from.operand, b), dense, stream);
  };
  return source;
}

Result<Source> scaled_source(const std::shared_ptr<Toolbox>& toolbox, const problem::View& view,
                             const problem::View& scales, const BlockAxis& batch,
                             const BlockAxis& line, const BlockAxis& k, Arena& arena) {
  Source source = as_it_lies(view);
  source.view = {.dtype = DType::F32,
                 .row_stride = k.extent,
                 .column_stride = 1,
                 .batch_stride = batch.extent == 1 ? 0 : line.extent * k.extent};
  const int64_t count = batch.extent * line.extent * k.extent;
  source.copy_at = arena.take(static_cast<size_t>(count * ir::size_of(DType::F32)));
  ATTACCA_TRY(ScaleBlocks made,
              ScaleBlocks::make(toolbox, {batch, line, k}, view.dtype, scales.dtype));
  source.copy = [view, scales, kernel = std::move(made)](const Source::Memory& from, void* dense,
                                                         gpu::StreamHandle stream) {
    return kernel.launch(first_element(from.operand, view), first_element(from.scales, scales),
                         dense, stream);
  };
  return source;
}

}  // namespace attacca::launch
