#include "fuzz/entries.hpp"

#include <algorithm>
#include <string>

#include "import/formats.hpp"
#include "ir/text/text.hpp"
#include "support/check.hpp"

namespace attacca::fuzz {
namespace {

ir::Graph reread(const std::string& text) {
  auto graph = ir::parse_graph(text);
  ATTACCA_CHECK(graph.has_value(), graph ? "" : to_string(graph.error()) + text);
  return *std::move(graph);
}

// The first print may order and name nodes afresh; from then on nothing changes.
void check_round_trip(const ir::Graph& graph) {
  const Status status = ir::verify(graph);
  ATTACCA_CHECK(status.has_value(), status ? "" : to_string(status.error()));
  const std::string settled = ir::print_graph(reread(ir::print_graph(graph)));
  ATTACCA_CHECK(ir::print_graph(reread(settled)) == settled,
                "the print changes when read back:\n" + settled);
}

}  // namespace

void try_format(std::string_view name, std::string_view bytes) {
  const auto formats = import::formats();
  const auto format = std::find_if(formats.begin(), formats.end(),
                                   [&](const import::Format& each) { return each.name == name; });
  ATTACCA_CHECK(format != formats.end(), "a fuzzer of no format");
  if (const auto graph = format->parse(bytes)) check_round_trip(*graph);
}

}  // namespace attacca::fuzz
