// The outermost shell: bytes to protobuf, with limits that hold before anything is allocated.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "onnx/onnx.pb.h"
#include "support/error.hpp"

namespace attacca::import {

inline constexpr size_t kMaxFileBytes = size_t{1} << 31;

// Errors: empty, too large, truncated, malformed, nested too deep, too many fields.
Result<std::unique_ptr<onnx::ModelProto>> parse_model(std::string_view bytes);

// A function's attributes that have defaults (FunctionProto.attribute_proto, newer than the
// schema).
std::vector<onnx::AttributeProto> default_attributes(const onnx::FunctionProto& function);

}  // namespace attacca::import
