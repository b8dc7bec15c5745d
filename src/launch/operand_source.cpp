#include "launch/operand_source.hpp"

#include "launch/cublaslt.hpp"
#include "launch/fused.hpp"
#include "launch/helpers/unpack.hpp"

namespace attacca::launch {
namespace {

using epilogue::Role;
using ir::DType;

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
  copy.inputs.push_back(from);
  copy.inputs[0].offset = 0;
  copy.outputs.push_back({.dtype = to,
                          .row_stride = row_stride,
                          .column_stride = column_stride,
                          .batch_stride = rows * columns});
  return copy;
}

}  // namespace

Result<void*> Source::ready(const problem::Pointers& pointers, char* workspace,
                            gpu::StreamHandle stream) const {
  void* first = static_cast<char*>(pointers[pointer]) + from.offset * ir::size_of(from.dtype);
  if (!copy) return first;
  void* dense = workspace + copy_at;
  if (scales) {
    ATTACCA_TRY_VOID(
        copy->launch({first, static_cast<float*>(pointers[scales_pointer]) + scales->offset, dense},
                     nullptr, stream));
    return dense;
  }
  ATTACCA_TRY_VOID(copy->launch({first, dense}, nullptr, stream));
  return dense;
}

Result<Source> make_source(const std::shared_ptr<Toolbox>& toolbox, size_t pointer,
                           const problem::View& view, DType dtype, int64_t rows, int64_t columns,
                           int64_t batch, Contiguous contiguous, Arena& arena) {
  Source source{.pointer = pointer, .view = view, .copy = nullptr, .from = view};
  source.view.offset = 0;
  const int64_t stride = contiguous == Contiguous::Rows ? view.row_stride : view.column_stride;
  const bool lies_right = contiguous == Contiguous::Either || stride == 1;
  if (view.dtype == dtype && lies_right && vendor_takes(view, rows, columns)) return source;
  const int64_t batches = view.batch_stride == 0 ? 1 : batch;
  const problem::Problem copy = copy_problem(view, dtype, rows, columns, batches, contiguous);
  source.view = copy.outputs[0];
  if (batches == 1) source.view.batch_stride = 0;
  source.copy_at = arena.take(static_cast<size_t>(batches * rows * columns * ir::size_of(dtype)));
  if (rows * columns > 0) {
    ATTACCA_TRY(source.copy, make_pointwise(toolbox, copy));
  }
  return source;
}

Result<Source> unpacked_source(const std::shared_ptr<Toolbox>& toolbox, size_t pointer,
                               const problem::Product& product, DType dtype, Arena& arena) {
  Source source{.pointer = pointer, .view = product.b, .copy = nullptr, .from = product.b};
  source.view.dtype = dtype;
  source.copy_at = arena.take(static_cast<size_t>(product.n * product.k * ir::size_of(dtype)));
  ATTACCA_TRY(source.copy, make_unpack(toolbox, *product.packed, product.b.dtype, dtype));
  return source;
}

Result<Source> scaled_source(const std::shared_ptr<Toolbox>& toolbox, Source source,
                             const BlockAxis& batch, const BlockAxis& line, const BlockAxis& k,
                             Arena& arena) {
  source.view = {.dtype = DType::F32,
                 .row_stride = k.extent,
                 .column_stride = 1,
                 .batch_stride = batch.extent == 1 ? 0 : line.extent * k.extent};
  const int64_t count = batch.extent * line.extent * k.extent;
  source.copy_at = arena.take(static_cast<size_t>(count * ir::size_of(DType::F32)));
  ATTACCA_TRY(source.copy, make_scale_blocks(toolbox, {batch, line, k}, source.from.dtype,
                                             source.scales->dtype));
  return source;
}

}  // namespace attacca::launch
