#include "run/shared/input_layout.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

#include "fmt/format.h"

#include "ir/graph/span.hpp"
#include "run/shared/access.hpp"
#include "support/memory.hpp"

namespace attacca::run {

using ir::Tensor;

Result<ir::SymbolValues> symbols_of(const ir::Graph& graph, const ir::Bindings& inputs) {
  std::map<std::string, std::vector<int64_t>> shapes;
  for (const auto& [name, tensor] : inputs) shapes[name] = tensor.shape();
  return ir::bind_symbols(graph, shapes);
}

Result<int64_t> span_of(const ir::Node& input, const std::vector<int64_t>& shape,
                        const std::vector<int64_t>& strides) {
  if (std::count(shape.begin(), shape.end(), 0) > 0) return 0;
  if (std::any_of(strides.begin(), strides.end(), [](int64_t stride) { return stride < 0; }))
    return fail(fmt::format("input {} declares a negative stride", input.name), input.name,
                "declare strides >= 0");
  const auto span = ir::span_of(shape, strides);
  if (!span || *span > physical_memory() / ir::size_of(input.type.dtype))
    return fail(fmt::format("input {} declares strides that reach further than this machine's "
                            "memory",
                            input.name),
                input.name, "use smaller strides or dimensions");
  return *span;
}

namespace {

// The element's place where elements of the shape lie by the strides.
int64_t place_of(int64_t element, const std::vector<int64_t>& shape,
                 const std::vector<int64_t>& strides) {
  int64_t place = 0;
  for (size_t axis = shape.size(); axis-- > 0;) {
    place += element % shape[axis] * strides[axis];
    element /= shape[axis];
  }
  return place;
}

}  // namespace

bool may_overlap(const std::vector<int64_t>& shape, const std::vector<int64_t>& strides) {
  std::vector<std::pair<int64_t, int64_t>> axes;
  for (size_t axis = 0; axis < strides.size(); ++axis)
    if (shape[axis] > 1) axes.emplace_back(strides[axis], shape[axis]);
  std::sort(axes.begin(), axes.end());
  int64_t reach = 0;  // of the axes so far
  for (const auto& [stride, extent] : axes) {
    if (stride <= reach) return true;
    reach += (extent - 1) * stride;
  }
  return false;
}

Result<Tensor> laid_out(const ir::Node& input, const Tensor& tensor,
                        const ir::SymbolValues& symbols) {
  if (input.type.strides.empty()) return tensor.contiguous();
  ATTACCA_TRY(const ConcreteAccess wanted, evaluate_access({0, input.type.strides}, symbols));
  const std::vector<int64_t>&shape = tensor.shape(), &strides = wanted.strides;
  if (strides == tensor.strides() || tensor.size() == 0) return tensor;
  ATTACCA_TRY(const int64_t span, span_of(input, shape, strides));
  const int64_t width = ir::size_of(tensor.dtype());
  const std::shared_ptr<std::byte> storage(allocate_aligned((span * width / 64 + 1) * 64),
                                           [](std::byte* p) { std::free(p); });
  if (!storage) throw std::bad_alloc();
  ATTACCA_TRY(const Tensor dense, tensor.contiguous());
  for (int64_t i = 0; i < dense.size(); ++i)
    std::memcpy(storage.get() + place_of(i, shape, strides) * width, dense.data() + i * width,
                width);
  const bool overlap = may_overlap(shape, strides);
  for (int64_t i = 0; overlap && i < dense.size(); ++i)
    if (std::memcmp(storage.get() + place_of(i, shape, strides) * width, dense.data() + i * width,
                    width) != 0)
      return fail(fmt::format("input {} declares strides that put different values at one place",
                              input.name),
                  input.name, "give equal values there, or declare strides that do not overlap");
  return Tensor::adopt(tensor.dtype(), shape, storage, strides);
}

}  // namespace attacca::run
