#pragma once

#include "ir/graph/tensor.hpp"

namespace attacca::backend {

// |got - wanted| <= atol + rtol * |wanted|, NaN equal to NaN; integers and bool exactly.
struct Tolerance {
  double relative, absolute;
};
Tolerance tolerance(ir::DType dtype);

// What differs first, with shapes and dtypes checked too.
Status compare(const ir::Tensor& got, const ir::Tensor& wanted);

}  // namespace attacca::backend
