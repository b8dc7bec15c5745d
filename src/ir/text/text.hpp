// The text form: parse and print, round-tripping. The grammar stands in docs/text-format.md.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ir/graph/graph.hpp"

namespace attacca::ir {

// The graph of a text, which holds exactly one `graph` block. Errors carry SOURCE:LINE:COLUMN.
Result<Graph> parse_graph(std::string_view text, std::string_view source = "<text>");

// A bare expression such as `x / (1 + exp(-x))`: its free names become inputs, in order of
// appearance, of the given type (default f32[N]).
Result<Graph> parse_expression(std::string_view text,
                               const Type& type = {DType::F32, {Dim::symbol("N")}});

// A list of results over given inputs, as after `return`: `silu(acc + bias), y = acc * 2`. The
// inputs come first in the graph, in order, used or not.
struct NamedType {
  std::string name;
  Type type;
};
Result<Graph> parse_results(std::string_view text, const std::vector<NamedType>& inputs,
                            std::string_view source = "<text>");

// Functions of floats that are not ops of the graph. The result of a call is an f32 input of its
// own, so that no pass computes through it; `made` says which input stands for which call.
struct ForeignFunction {
  std::string name;
  size_t arity = 1;
};
struct ForeignCall {
  std::string function;
  std::vector<Value> operands;
  Value result;
};
struct ForeignCalls {
  std::vector<ForeignFunction> known;
  std::vector<ForeignCall> made;
};
Result<Graph> parse_results(std::string_view text, const std::vector<NamedType>& inputs,
                            ForeignCalls& calls, std::string_view source = "<text>");

struct PrintOptions {
  // Tensor constants above this many elements print as `constant(f32[4096, 4096], ...)`, which
  // does not parse; < 0: everything is printed.
  int64_t max_constant_elements = -1;
};
std::string print_graph(const Graph& graph, const PrintOptions& options = {});

// The expression of a value down to inputs and named nodes, e.g. "silu(acc + bias) * res".
// With through_names, named nodes are expanded too.
std::string print_expression(const Graph& graph, Value value, bool through_names = false);

// ", entry=gemm, grid=[ceildiv(M, 64), 4], block=[256]": what follows the arguments in the text.
std::string launch_text(const KernelCall& call);

}  // namespace attacca::ir
