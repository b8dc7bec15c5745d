#include "fuse/joining/columns.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "support/memory.hpp"

namespace attacca::fuse {
namespace {

bool is_list(const ir::Shape& shape) {
  return std::all_of(shape.begin(), shape.end() - (shape.empty() ? 0 : 1),
                     [](const ir::Dim& dim) { return dim.is(1); });
}

// Not zeroed, and so not in memory until it is filled.
std::optional<ir::Tensor> reserve(ir::DType dtype, std::vector<int64_t> shape) {
  size_t bytes = static_cast<size_t>(ir::size_of(dtype));
  for (const int64_t extent : shape)
    if (__builtin_mul_overflow(bytes, static_cast<size_t>(extent), &bytes)) return std::nullopt;
  auto* memory = allocate_aligned((bytes + 64) / 64 * 64);
  if (memory == nullptr) return std::nullopt;
  return ir::Tensor::adopt(dtype, std::move(shape), {memory, std::free});
}

}  // namespace

std::optional<ConstantColumns> constant_columns(const ir::Graph& graph,
                                                const std::vector<View>& views, ir::Value value) {
  const View& view = views[value.id];
  const ir::Node& source = graph[view.source];
  const ir::Shape& shape = graph.type(value).shape;
  if (!source.tensor || !ir::is_static(shape)) return std::nullopt;
  const bool list = is_list(shape);
  if (!list && shape.size() != 2) return std::nullopt;
  const auto offset = view.access.offset.maybe_value();
  auto tensor = source.tensor->contiguous();
  if (!offset || !tensor) return std::nullopt;
  ConstantColumns result{*std::move(tensor), *offset};
  const auto stride = [&](size_t axis) {
    return axis < shape.size() ? view.access.strides[axis].maybe_value() : 0;
  };
  const auto rows = list ? std::optional<int64_t>(0) : stride(0);
  const auto columns = shape.empty() ? std::optional<int64_t>(0) : stride(shape.size() - 1);
  if (!rows || !columns) return std::nullopt;
  result.row_stride = *rows;
  result.column_stride = *columns;
  result.rows = list ? 1 : shape[0].value();
  result.columns = shape.empty() ? 1 : shape.back().value();
  return result;
}

void SideBySide::fill() {
  const int64_t width = ir::size_of(tensor.dtype());
  const int64_t outer = tensor.shape().back();
  int64_t first = 0;
  for (const ConstantColumns& part : parts) {
    const std::byte* const from = part.tensor.data() + part.offset * width;
    // In the order of memory: lines of the tensor, and the elements of one.
    const int64_t lines = transposed ? part.columns : part.rows;
    const int64_t count = transposed ? part.rows : part.columns;
    const int64_t line_stride = transposed ? part.column_stride : part.row_stride;
    const int64_t stride = transposed ? part.row_stride : part.column_stride;
    for (int64_t line = 0; line < lines; ++line) {
      std::byte* const to =
          tensor.data() + (transposed ? (first + line) * outer : line * outer + first) * width;
      const std::byte* const begin = from + line * line_stride * width;
      if (stride == 1) {
        std::memcpy(to, begin, static_cast<size_t>(count * width));
        continue;
      }
      for (int64_t i = 0; i < count; ++i)
        std::memcpy(to + i * width, begin + i * stride * width, static_cast<size_t>(width));
    }
    first += part.columns;
  }
}

namespace {

int64_t columns_of(const std::vector<ConstantColumns>& parts) {
  int64_t columns = 0;
  for (const ConstantColumns& part : parts) columns += part.columns;
  return columns;
}

std::optional<SideBySide> laid_out(std::vector<ConstantColumns> parts, std::vector<int64_t> shape,
                                   bool transposed) {
  auto tensor = reserve(parts[0].tensor.dtype(), std::move(shape));
  if (!tensor) return std::nullopt;
  return SideBySide{*std::move(tensor), transposed, std::move(parts)};
}

}  // namespace

std::optional<SideBySide> matrices_side_by_side(std::vector<ConstantColumns> parts) {
  const bool transposed = std::all_of(parts.begin(), parts.end(), [](const auto& part) {
    return part.row_stride == 1 && part.column_stride != 1;
  });
  const int64_t rows = parts[0].rows, columns = columns_of(parts);
  return laid_out(std::move(parts),
                  transposed ? std::vector{columns, rows} : std::vector{rows, columns}, transposed);
}

std::optional<SideBySide> lists_side_by_side(std::vector<ConstantColumns> parts) {
  const int64_t columns = columns_of(parts);
  return laid_out(std::move(parts), {columns}, false);
}

}  // namespace attacca::fuse
