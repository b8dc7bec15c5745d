// Bytes to protobuf, with limits that are checked before anything is allocated.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "onnx/onnx.pb.h"
#include "support/error.hpp"

namespace attacca::import {

// Errors: empty, too large, truncated, malformed, nested too deep, too many fields.
Result<std::unique_ptr<onnx::ModelProto>> parse_model(std::string_view bytes);

// The same from a file, whose bytes are freed once the model is read.
Result<std::unique_ptr<onnx::ModelProto>> read_model(const std::string& path);

// A function's attributes that have defaults (FunctionProto.attribute_proto, newer than the
// schema).
std::vector<onnx::AttributeProto> default_attributes(const onnx::FunctionProto& function);

// Which of the functions of one name this is, or a node calls (`overload`, newer than the schema).
std::string overload_of(const onnx::FunctionProto& function);
std::string overload_of(const onnx::NodeProto& node);

}  // namespace attacca::import
