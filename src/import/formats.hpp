// The formats of model files, one row each. The reader of files, the command line's help, the
// fuzzers and the replay of their corpora use the table.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "ir/graph/graph.hpp"

namespace attacca::import {

struct Format {
  std::string_view name;    // of its fuzzer and corpus in tests/fuzz
  std::string_view ending;  // of its files
  std::string_view noun;    // for help: ".onnx model"
  // Symbols of the inputs' shapes that are among `sizes` become numbers.
  Result<ir::Graph> (*read)(const std::string& path, const ir::SymbolValues& sizes);
  Result<ir::Graph> (*parse)(std::string_view bytes);  // the content of such a file
};

// The last one is the text form.
std::span<const Format> formats();

// By the path's ending; the text form has any other.
const Format& format_of(std::string_view path);

// "A .onnx model or a graph in the text form".
std::string all_formats();

}  // namespace attacca::import
