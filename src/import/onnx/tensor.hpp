// TensorProto to ir::Tensor, and ONNX's codes for element types.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "import/onnx/expr.hpp"
#include "ir/graph/tensor.hpp"
#include "onnx/onnx.pb.h"

namespace attacca::import {

// An error names the unsupported type: "ONNX type uint16 is not supported".
Result<ir::DType> read_dtype(int32_t code);
std::string onnx_dtype_name(int32_t code);
// Of int16 and uint16, for which read_dtype() is an error.
std::optional<SixteenBits> sixteen_bits_of(int32_t code);
// What to do about int4 and uint4 where they are an error.
inline constexpr std::string_view kFourBitsFix =
    "give them to DequantizeLinear, as an initializer; use int8 or uint8 elsewhere";

// Checks shape against data before allocating. External data is looked up in `directory`; an empty
// one refuses it.
Result<ir::Tensor> read_tensor(const onnx::TensorProto& proto, const std::string& directory);
// Likewise, as a constant; one of int16 or uint16 is one of s32, one of int4 s8, one of uint4 u8.
Result<Entry> read_constant(ir::Graph& graph, const onnx::TensorProto& proto,
                            const std::string& directory);

}  // namespace attacca::import
