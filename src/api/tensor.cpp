#include "api/tensor.hpp"

#include <algorithm>

#include "fmt/format.h"

#include "ir/graph/span.hpp"

namespace attacca::api {
namespace {

tl::unexpected<Error> too_large(const Tensor& tensor) {
  return fail(fmt::format("{} has more bytes than there are addresses", tensor.name), tensor.name,
              "use smaller sizes");
}

// The dtype's bytes times the span of the strides.
Result<size_t> span_bytes(const Tensor& tensor) {
  const auto span = ir::span_of(tensor.shape, tensor.strides);
  int64_t bytes = 0;
  if (!span || __builtin_mul_overflow(*span, ir::size_of(tensor.dtype), &bytes))
    return too_large(tensor);
  return static_cast<size_t>(bytes);
}

}  // namespace

Result<Tensor> dense_tensor(std::string name, ir::DType dtype, std::vector<int64_t> shape) {
  Tensor tensor{std::move(name), dtype, std::move(shape), {}, 0};
  std::vector<int64_t> strides(tensor.shape.size());
  int64_t stride = 1;
  for (size_t axis = tensor.shape.size(); axis-- > 0;) {
    strides[axis] = stride;
    if (__builtin_mul_overflow(stride, std::max<int64_t>(tensor.shape[axis], 1), &stride))
      return too_large(tensor);
  }
  ATTACCA_TRY_VOID(set_strides(tensor, std::move(strides)));
  return tensor;
}

Status set_strides(Tensor& tensor, std::vector<int64_t> strides) {
  tensor.strides = std::move(strides);
  ATTACCA_TRY(tensor.bytes, span_bytes(tensor));
  return {};
}

Status give_strides(Tensor& tensor, const std::vector<int64_t>& strides) {
  if (strides.size() != tensor.shape.size())
    return fail(fmt::format("{} strides for the {} dimensions of {}", strides.size(),
                            tensor.shape.size(), tensor.name),
                tensor.name, "give one a dimension");
  for (size_t axis = 0; axis < strides.size(); ++axis)
    if (strides[axis] < 0 && tensor.shape[axis] > 1)
      return fail(fmt::format("{} has a negative stride", tensor.name), tensor.name, "copy it");
  std::vector<int64_t> steps = strides;
  for (size_t axis = 0; axis < steps.size(); ++axis)
    if (tensor.shape[axis] <= 1) steps[axis] = 0;
  return set_strides(tensor, std::move(steps));
}

}  // namespace attacca::api
