#include "fuzz/entries.hpp"

#include <string>

#include "import/onnx.hpp"
#include "ir/text.hpp"
#include "support/check.hpp"

namespace attacca::fuzz {
namespace {

void check_round_trip(const ir::Graph& graph) {
  const Status status = ir::verify(graph);
  ATTACCA_CHECK(status.has_value(), status ? "" : to_string(status.error()));
  const std::string text = ir::print_graph(graph);
  const auto again = ir::parse_graph(text);
  ATTACCA_CHECK(again.has_value(), again ? "" : to_string(again.error()) + text);
  ATTACCA_CHECK(ir::print_graph(*again) == text, "the print changes when read back:\n" + text);
}

}  // namespace

void try_onnx(std::string_view bytes) {
  if (const auto graph = import::parse_onnx(bytes)) check_round_trip(*graph);
}

void try_text(std::string_view text) {
  if (const auto graph = ir::parse_graph(text)) check_round_trip(*graph);
}

}  // namespace attacca::fuzz
