#include "onnx_backend/compare.hpp"

#include <cmath>

#include "fmt/format.h"

namespace attacca::backend {
namespace {

bool close(double got, double wanted, const Tolerance& allowed) {
  if (std::isnan(wanted) || std::isnan(got)) return std::isnan(wanted) && std::isnan(got);
  if (std::isinf(wanted) || std::isinf(got)) return got == wanted;
  return std::fabs(got - wanted) <= allowed.absolute + allowed.relative * std::fabs(wanted);
}

}  // namespace

Tolerance tolerance(ir::DType dtype) {
  switch (dtype) {
    case ir::DType::F64:
    case ir::DType::F32:
      return {1e-3, 1e-5};
    case ir::DType::F16:
      return {2e-3, 1e-4};  // two units in the last place
    case ir::DType::BF16:
      return {1.6e-2, 1e-3};
    case ir::DType::F8E4M3:
    case ir::DType::F8E5M2:
    case ir::DType::S8:
    case ir::DType::U8:
    case ir::DType::S32:
    case ir::DType::S64:
    case ir::DType::Bool:
      return {0, 0};
  }
  return {0, 0};
}

Status compare(const ir::Tensor& got, const ir::Tensor& wanted) {
  if (got.dtype() != wanted.dtype())
    return fail(
        fmt::format("dtype {}, wanted {}", ir::name(got.dtype()), ir::name(wanted.dtype())));
  if (got.shape() != wanted.shape())
    return fail(fmt::format("shape {}, wanted {}", ir::to_string(got.shape()),
                            ir::to_string(wanted.shape())));
  const Tolerance allowed = tolerance(wanted.dtype());
  const bool real = ir::is_float(wanted.dtype());
  for (int64_t i = 0; i < wanted.size(); ++i) {
    if (real ? close(got.number_at(i), wanted.number_at(i), allowed)
             : got.integer_at(i) == wanted.integer_at(i))
      continue;
    return fail(
        fmt::format("element {} is {}, wanted {}", i, got.number_at(i), wanted.number_at(i)));
  }
  return {};
}

}  // namespace attacca::backend
