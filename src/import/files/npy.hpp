// NumPy's .npy files: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
#pragma once

#include <string>

#include "ir/graph/tensor.hpp"

namespace attacca::import {

// Reads a file of the wanted dtype; versions 1 to 3, little endian, C or Fortran order (converted
// to row-major). bf16 and fp8, which NumPy does not know, are raw |V2 or |V1 as ml_dtypes saves
// them. Errors: missing, truncated, another dtype, sizes that overflow.
Result<ir::Tensor> read_npy(const std::string& path, ir::DType wanted);

// Writes version 1, row-major; bf16 and fp8 as raw |V2 or |V1.
Status write_npy(const std::string& path, const ir::Tensor& tensor);

}  // namespace attacca::import
