#include "import/formats.hpp"

#include <algorithm>

#include "import/onnx/onnx.hpp"
#include "ir/text/text.hpp"
#include "support/files/file.hpp"

namespace attacca::import {
namespace {

// A text's shapes may be symbols wherever a model's may not: sizes are not needed.
Result<ir::Graph> read_text(const std::string& path, const ir::SymbolValues& sizes) {
  ATTACCA_TRY(const std::string text, read_file(path));
  auto graph = ir::parse_graph(text, path);
  if (graph && !sizes.empty())
    return fail("a graph in the text form is read without sizes", path,
                "give them when it is prepared or run");
  return graph;
}

constexpr Format kFormats[] = {
    {"onnx", ".onnx", ".onnx model",
     [](const std::string& path, const ir::SymbolValues& sizes) {
       return read_onnx(path, {}, sizes);
     },
     [](std::string_view bytes) { return parse_onnx(bytes); }},
    {"text", ".attacca", "graph in the text form", read_text,
     [](std::string_view text) { return ir::parse_graph(text); }},
};

}  // namespace

std::span<const Format> formats() {
  return kFormats;
}

const Format& format_of(std::string_view path) {
  const auto* const found =
      std::find_if(std::begin(kFormats), std::end(kFormats) - 1,
                   [&](const Format& format) { return path.ends_with(format.ending); });
  return *found;
}

std::string all_formats() {
  std::string text;
  for (const Format& format : kFormats) {
    text += text.empty() ? "A " : " or a ";
    text += format.noun;
  }
  return text;
}

}  // namespace attacca::import
