// Reads ONNX models (opsets up to 23) into graphs. The table of ops stands in import/onnx_ops.def.
#pragma once

#include <string>

#include "ir/graph.hpp"

namespace attacca::import {

// `path` names a .onnx file; external data is looked up beside it. Errors list every unsupported op
// with its node name at once.
Result<ir::Graph> read_onnx(const std::string& path);

// From memory; external data is an error unless `directory` is given.
Result<ir::Graph> parse_onnx(std::string_view bytes, const std::string& directory = {});

}  // namespace attacca::import
