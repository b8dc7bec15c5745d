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

// A tensor that is not zeroed, so that it takes no pages before it is filled. nullopt: memory ran
// out.
std::optional<ir::Tensor> reserve(ir::DType dtype, std::vector<int64_t> shape) {
  size_t bytes = static_cast<size_t>(ir::size_of(dtype));
  for (const int64_t extent : shape)
    if (__builtin_mul_overflow(bytes, static_cast<size_t>(extent), &bytes)) return std::nullopt;
  auto* memory = allocate_aligned((bytes + 64) / 64 * 64);
  if (memory == nullptr) return std::nullopt;
  return ir::Tensor::adopt(dtype, std::move(shape), {memory, std::free});
}

// The columns of a view that is a whole tensor of any strides, or its transpose; nullopt for other
// views.
std::optional<ConstantColumns> whole_matrix(const ir::Tensor& tensor, const View& view,
                                            const ir::Shape& shape) {
  if (tensor.shape().size() != 2 || shape.size() != 2 || !view.access.offset.is(0))
    return std::nullopt;
  const std::vector<ir::Dim>& strides = view.access.strides;
  const int64_t across = tensor.shape()[1];
  const auto turned = [&](size_t row, size_t column) -> std::optional<ConstantColumns> {
    if (!strides[row].is(across) || !strides[column].is(1) || !shape[row].is(tensor.shape()[0]) ||
        !shape[column].is(across))
      return std::nullopt;
    return ConstantColumns{tensor,
                           0,
                           tensor.strides()[row == 0 ? 0 : 1],
                           tensor.strides()[row == 0 ? 1 : 0],
                           shape[0].value(),
                           shape[1].value()};
  };
  const auto plain = turned(0, 1);
  return plain ? plain : turned(1, 0);
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
  if (const auto whole = whole_matrix(*source.tensor, view, shape)) return whole;
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
  if (in_place) return;
  const int64_t width = ir::size_of(tensor.dtype());
  const int64_t outer = tensor.shape().back();
  int64_t first = 0;
  for (const ConstantColumns& part : parts) {
    const std::byte* const from = part.first();
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

int64_t total_columns(const std::vector<ConstantColumns>& parts) {
  int64_t columns = 0;
  for (const ConstantColumns& part : parts) columns += part.columns;
  return columns;
}

// A part of another tensor's memory, which keeps the owners alive.
ir::Tensor part_of(std::vector<ir::Tensor> owners, const std::byte* first,
                   std::vector<int64_t> shape, std::vector<int64_t> strides) {
  const ir::DType dtype = owners[0].dtype();
  auto kept = std::make_shared<std::vector<ir::Tensor>>(std::move(owners));
  std::shared_ptr<std::byte> storage(std::move(kept), const_cast<std::byte*>(first));
  return ir::Tensor::adopt(dtype, std::move(shape), std::move(storage), std::move(strides));
}

// Whether the parts are one matrix [K, N] with these strides.
bool are_in_place(const std::vector<ConstantColumns>& parts, int64_t row_stride,
                  int64_t column_stride) {
  const std::byte* next = parts[0].first();
  for (const ConstantColumns& part : parts) {
    if (part.first() != next || part.row_stride != row_stride ||
        part.column_stride != column_stride)
      return false;
    next += part.columns * column_stride * ir::size_of(part.tensor.dtype());
  }
  return true;
}

std::optional<SideBySide> laid_out(std::vector<ConstantColumns> parts, std::vector<int64_t> shape,
                                   bool transposed) {
  auto tensor = reserve(parts[0].tensor.dtype(), std::move(shape));
  if (!tensor) return std::nullopt;
  return SideBySide{*std::move(tensor), transposed, std::move(parts)};
}

}  // namespace

std::vector<MovedConstant> SideBySide::moved() const {
  std::vector<MovedConstant> result;
  if (in_place) return result;
  const int64_t width = ir::size_of(tensor.dtype()), step = tensor.strides()[0];
  int64_t first = 0;
  for (const ConstantColumns& part : parts) {
    const std::vector<int64_t>& shape = part.tensor.shape();
    const bool turned = part.row_stride == 1;
    if (part.tensor.is_contiguous() && shape.size() == 2 && part.offset == 0 && part.rows > 1 &&
        part.columns > 1 && part.rows * part.columns == part.tensor.size())
      result.push_back(
          {part.tensor.data(),
           part_of({tensor}, tensor.data() + first * (transposed ? step : 1) * width, shape,
                   turned == transposed ? std::vector{step, int64_t{1}}
                                        : std::vector{int64_t{1}, step})});
    first += part.columns;
  }
  return result;
}

std::optional<SideBySide> matrices_side_by_side(std::vector<ConstantColumns> parts) {
  const bool transposed = std::all_of(parts.begin(), parts.end(), [](const auto& part) {
    return part.row_stride == 1 && part.column_stride != 1;
  });
  const int64_t rows = parts[0].rows, columns = total_columns(parts);
  std::vector<int64_t> shape = transposed ? std::vector{columns, rows} : std::vector{rows, columns};
  if (!are_in_place(parts, transposed ? 1 : columns, transposed ? rows : 1))
    return laid_out(std::move(parts), std::move(shape), transposed);
  std::vector<ir::Tensor> owners;
  for (const ConstantColumns& part : parts) owners.push_back(part.tensor);
  ir::Tensor tensor = part_of(std::move(owners), parts[0].first(), std::move(shape), {});
  return SideBySide{.tensor = std::move(tensor),
                    .transposed = transposed,
                    .parts = std::move(parts),
                    .in_place = true};
}

std::optional<SideBySide> lists_side_by_side(std::vector<ConstantColumns> parts) {
  const int64_t columns = total_columns(parts);
  return laid_out(std::move(parts), {columns}, false);
}

}  // namespace attacca::fuse
