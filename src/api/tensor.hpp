// An input or output of certain sizes.
#pragma once

#include <string>
#include <vector>

#include "ir/graph/dtype.hpp"
#include "support/error.hpp"

namespace attacca::api {

struct Tensor {
  std::string name;
  ir::DType dtype = ir::DType::F32;
  std::vector<int64_t> shape, strides;
  size_t bytes = 0;  // that it spans
};

// Row-major. Errors: more bytes than there are addresses.
Result<Tensor> dense_tensor(std::string name, ir::DType dtype, std::vector<int64_t> shape);
// Sets the strides that the graph declares. Errors: as dense_tensor().
Status set_strides(Tensor& tensor, std::vector<int64_t> strides);
// Sets the caller's strides. Errors: too few or many, negative, absurdly large.
Status give_strides(Tensor& tensor, const std::vector<int64_t>& strides);

}  // namespace attacca::api
