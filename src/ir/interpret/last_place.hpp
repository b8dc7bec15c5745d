// The precision of a float type, for tolerances.
#pragma once

#include "ir/graph/dtype.hpp"

namespace attacca::ir {

// The distance from 1 to the next larger value; 0 for a type that is not a float.
constexpr double last_place(DType dtype) {
  switch (dtype) {
    case DType::F64:
      return 0x1p-52;
    case DType::F32:
      return 0x1p-23;
    case DType::F16:
      return 0x1p-10;
    case DType::BF16:
      return 0x1p-7;
    case DType::F8E4M3:
      return 0x1p-3;
    case DType::F8E5M2:
      return 0x1p-2;
    default:
      return 0;
  }
}

}  // namespace attacca::ir
