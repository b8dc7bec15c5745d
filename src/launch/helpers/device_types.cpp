#include "launch/helpers/device_types.hpp"

#include "fmt/format.h"

namespace attacca::launch {

Result<DeviceType> device_type(ir::DType dtype) {
  switch (dtype) {
    case ir::DType::F64:
      return DeviceType{dtype, "F64", true};
    case ir::DType::F32:
      return DeviceType{dtype, "F32", true};
    case ir::DType::F16:
      return DeviceType{dtype, "F16", true};
    case ir::DType::BF16:
      return DeviceType{dtype, "BF16", true};
    case ir::DType::F8E4M3:
      return DeviceType{dtype, "F8E4M3", true};
    case ir::DType::F8E5M2:
      return DeviceType{dtype, "F8E5M2", true};
    case ir::DType::S8:
      return DeviceType{dtype, "S8", false};
    case ir::DType::U8:
      return DeviceType{dtype, "U8", false};
    case ir::DType::S32:
      return DeviceType{dtype, "S32", false};
    case ir::DType::S64:
      return DeviceType{dtype, "S64", false};
    case ir::DType::Bool:
      return DeviceType{dtype, "Bool", false};
  }
  return fail(fmt::format("no kernel reads or writes {}", name(dtype)));
}

}  // namespace attacca::launch
