// The text form: parse and print, round-tripping. The grammar stands in docs/text-format.md.
#pragma once

#include <string>
#include <string_view>

#include "ir/graph.hpp"

namespace attacca::ir {

// One or more `graph` blocks would be ambiguous: a text holds exactly one. Errors carry
// SOURCE:LINE:COLUMN.
Result<Graph> parse_graph(std::string_view text, std::string_view source = "<text>");

// A bare expression such as `x / (1 + exp(-x))`: its free names become inputs, in order of
// appearance, of the given type (default f32[N]).
Result<Graph> parse_expression(std::string_view text,
                               const Type& type = {DType::F32, {Dim::symbol("N")}});

struct PrintOptions {
  // Tensor constants above this many elements print as `constant(f32[4096, 4096], ...)`, which
  // does not parse; < 0: everything is printed.
  int64_t max_constant_elements = -1;
};
std::string print_graph(const Graph& graph, const PrintOptions& options = {});

// The expression of a value down to inputs and named nodes, e.g. "silu(acc + bias) * res".
// With through_names, named nodes are expanded too.
std::string print_expression(const Graph& graph, Value value, bool through_names = false);

}  // namespace attacca::ir
