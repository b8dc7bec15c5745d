// Reads ONNX models (opsets up to 24) into graphs. import/onnx/ops.def is the table of ops.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "ir/graph/graph.hpp"

namespace attacca::import {

// Inputs that become constants, by their names in the model. Inputs that shapes depend on must be
// among them.
using FixedInputs = std::map<std::string, ir::Tensor>;

// `path` names a .onnx file; external data is looked up beside it. Symbols of the inputs' shapes
// that are among `sizes` become numbers. Errors list every unsupported op with its node name at
// once; another is a size of no symbol.
Result<ir::Graph> read_onnx(const std::string& path, const FixedInputs& fixed = {},
                            const ir::SymbolValues& sizes = {});

// From memory; external data is an error unless `directory` is given.
Result<ir::Graph> parse_onnx(std::string_view bytes, const std::string& directory = {},
                             const FixedInputs& fixed = {}, const ir::SymbolValues& sizes = {});

}  // namespace attacca::import
