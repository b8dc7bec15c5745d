#include "run/layout.hpp"

#include <cstdlib>
#include <cstring>
#include <new>

#include "fmt/format.h"

#include "run/executable.hpp"
#include "support/memory.hpp"

namespace attacca::run {

using ir::Tensor;

Result<Tensor> laid_out(const ir::Node& input, const Tensor& tensor,
                        const ir::SymbolValues& symbols) {
  if (input.type.strides.empty()) return tensor.contiguous();
  ATTACCA_TRY(const Strides wanted, evaluate_access({0, input.type.strides}, symbols));
  if (wanted.strides == tensor.strides() || tensor.size() == 0) return tensor;
  int64_t span = 1;
  for (size_t axis = 0; axis < wanted.strides.size(); ++axis) {
    if (wanted.strides[axis] < 0)
      return fail(fmt::format("input {} declares a negative stride", input.name), input.name);
    span += (tensor.shape()[axis] - 1) * wanted.strides[axis];
  }
  const int64_t width = ir::size_of(tensor.dtype());
  const std::shared_ptr<std::byte> storage(allocate_aligned((span * width / 64 + 1) * 64),
                                           [](std::byte* p) { std::free(p); });
  if (!storage) throw std::bad_alloc();
  ATTACCA_TRY(const Tensor dense, tensor.contiguous());
  for (int64_t i = 0; i < dense.size(); ++i) {
    int64_t rest = i, at = 0;
    for (size_t axis = wanted.strides.size(); axis-- > 0;) {
      at += rest % tensor.shape()[axis] * wanted.strides[axis];
      rest /= tensor.shape()[axis];
    }
    std::memcpy(storage.get() + at * width, dense.data() + i * width, width);
  }
  return Tensor::adopt(tensor.dtype(), tensor.shape(), storage, wanted.strides);
}

}  // namespace attacca::run
