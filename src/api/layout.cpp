#include "api/layout.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "api/rewrite.hpp"

namespace attacca::api {

bool reach_the_same(const std::vector<int64_t>& shape, const std::vector<int64_t>& a,
                    const std::vector<int64_t>& b) {
  if (std::count(shape.begin(), shape.end(), 0) > 0) return true;
  for (size_t axis = 0; axis < shape.size(); ++axis)
    if (shape[axis] != 1 && a[axis] != b[axis]) return false;
  return true;
}

std::vector<ir::Dim> symbolic_strides(const ir::Shape& shape, const std::vector<int64_t>& extents,
                                      const std::vector<int64_t>& strides) {
  std::vector<size_t> axes(shape.size());
  std::iota(axes.rbegin(), axes.rend(), size_t{0});
  std::stable_sort(axes.begin(), axes.end(),
                   [&](size_t a, size_t b) { return strides[a] < strides[b]; });
  std::vector<ir::Dim> result(shape.size());
  ir::Dim next = 1;  // the next axis's stride if it follows from the axes before
  int64_t worth = 1;
  for (const size_t axis : axes) {
    if (extents[axis] == 1) continue;
    const bool follows = strides[axis] == worth && !next.overflowed();
    result[axis] = follows ? next : ir::Dim(strides[axis]);
    if (strides[axis] == 0) continue;
    next = result[axis] * shape[axis];
    worth = strides[axis] * extents[axis];  // no overflow: the tensor's span was checked
  }
  for (size_t axis = shape.size(); axis-- > 0;) {
    if (extents[axis] != 1) continue;
    const bool last = axis + 1 == shape.size();
    result[axis] = last ? ir::Dim(1) : result[axis + 1] * shape[axis + 1];
    if (result[axis].overflowed()) result[axis] = 1;
  }
  return result;
}

Result<ir::Graph> with_strides(const ir::Graph& graph, const InputStrides& strides) {
  size_t index = 0;
  return rewrite(graph,
                 [&](ir::Graph& into, const ir::Node& node) -> Result<std::optional<ir::Value>> {
                   if (node.op != ir::Op::Input) return std::nullopt;
                   const auto& wanted = strides[index++];
                   if (!wanted) return std::nullopt;
                   ir::Type type = node.type;
                   type.strides = *wanted;
                   ATTACCA_TRY(const ir::Value value, into.input(node.name, std::move(type)));
                   return value;
                 });
}

void scatter(const ir::Tensor& dense, const std::vector<int64_t>& strides, std::byte* to) {
  const std::vector<int64_t>& shape = dense.shape();
  if (dense.size() == 0) return;
  const int64_t width = ir::size_of(dense.dtype());
  // Axes from `inner` on lie row-major in both: one block.
  size_t inner = shape.size();
  int64_t block = 1;
  for (; inner > 0 && (shape[inner - 1] == 1 || strides[inner - 1] == block); --inner)
    block *= shape[inner - 1];
  std::vector<int64_t> index(inner, 0);
  const std::byte* from = dense.data();
  for (int64_t left = dense.size() / block; left > 0; --left, from += block * width) {
    int64_t place = 0;
    for (size_t axis = 0; axis < inner; ++axis) place += index[axis] * strides[axis];
    std::memcpy(to + place * width, from, static_cast<size_t>(block * width));
    for (size_t axis = inner; axis-- > 0;) {
      if (++index[axis] < shape[axis]) break;
      index[axis] = 0;
    }
  }
}

namespace {

// From the first byte to the last of the axes whose step is below `most` bytes.
int64_t span_below(const Extent& tensor, int64_t most) {
  int64_t span = tensor.width;
  for (size_t axis = 0; axis < tensor.shape.size(); ++axis)
    if (tensor.strides[axis] * tensor.width < most)
      span += (tensor.shape[axis] - 1) * tensor.strides[axis] * tensor.width;
  return span;
}

// Whether all steps of at least `row` bytes are multiples of it.
bool steps_by(const Extent& tensor, int64_t row) {
  for (size_t axis = 0; axis < tensor.shape.size(); ++axis) {
    const int64_t step = tensor.strides[axis] * tensor.width;
    if (tensor.shape[axis] > 1 && step >= row && step % row != 0) return false;
  }
  return true;
}

// Both lie in rows of `row` bytes, such as columns of one matrix, and in other parts of them.
bool apart_within(const Extent& a, const Extent& b, int64_t row) {
  if (!steps_by(a, row) || !steps_by(b, row)) return false;
  const int64_t width_a = span_below(a, row), width_b = span_below(b, row);
  const auto modulus = static_cast<uintptr_t>(row);
  const auto from_a_to_b =
      static_cast<int64_t>((b.address % modulus + modulus - a.address % modulus) % modulus);
  return width_a <= from_a_to_b && from_a_to_b + width_b <= row;
}

bool is_empty(const Extent& tensor) {
  return tensor.width == 0 || std::count(tensor.shape.begin(), tensor.shape.end(), 0) > 0;
}

}  // namespace

bool may_share(const Extent& a, const Extent& b) {
  if (is_empty(a) || is_empty(b)) return false;
  constexpr int64_t kAll = INT64_MAX;
  const auto end = [](const Extent& each) {
    return each.address + static_cast<uintptr_t>(span_below(each, kAll));
  };
  if (a.address >= end(b) || b.address >= end(a)) return false;
  for (const Extent* each : {&a, &b})
    for (size_t axis = 0; axis < each->shape.size(); ++axis) {
      const int64_t row = each->strides[axis] * each->width;
      if (each->shape[axis] > 1 && row > 0 && apart_within(a, b, row)) return false;
    }
  return true;
}

}  // namespace attacca::api
