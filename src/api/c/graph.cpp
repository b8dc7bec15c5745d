// The C interface: graphs and builders.
#include "fmt/format.h"

#include "api/builder.hpp"
#include "api/c/handles.hpp"
#include "api/c/status.hpp"
#include "api/constants.hpp"
#include "api/names.hpp"
#include "import/onnx/onnx.hpp"
#include "ir/text/text.hpp"
#include "run/pipeline.hpp"

namespace {

using attacca::fail;
using attacca::Result;
using attacca::Status;
using attacca::api::guarded;
using attacca::api::required;
using attacca::api::text_or;
namespace ir = attacca::ir;

Status give_graph(Result<ir::Graph> graph, attacca_graph** into) {
  if (!graph) return tl::make_unexpected(std::move(graph).error());
  *into = new attacca_graph{*std::move(graph)};
  return {};
}

Status give_value(const Result<uint64_t>& value, attacca_value* into) {
  if (!value) return tl::make_unexpected(value.error());
  *into = *value;
  return {};
}

}  // namespace

extern "C" {

attacca_status* attacca_graph_parse(const char* text, attacca_graph** graph) {
  return guarded([&]() -> Status {
    ATTACCA_TRY_VOID(required(text, "text"));
    ATTACCA_TRY_VOID(required(graph, "graph"));
    return give_graph(ir::parse_graph(text), graph);
  });
}

attacca_status* attacca_graph_load(const char* path, attacca_graph** graph) {
  return guarded([&]() -> Status {
    ATTACCA_TRY_VOID(required(path, "path"));
    ATTACCA_TRY_VOID(required(graph, "graph"));
    return give_graph(attacca::run::load_graph(path), graph);
  });
}

attacca_status* attacca_graph_from_onnx(const void* model, size_t bytes, const char* directory,
                                        attacca_graph** graph) {
  return guarded([&]() -> Status {
    ATTACCA_TRY_VOID(required(model, "model"));
    ATTACCA_TRY_VOID(required(graph, "graph"));
    const std::string_view text(static_cast<const char*>(model), bytes);
    return give_graph(attacca::import::parse_onnx(text, text_or(directory, "")), graph);
  });
}

attacca_status* attacca_graph_text(const attacca_graph* graph, attacca_bytes** text) {
  return guarded([&]() -> Status {
    ATTACCA_TRY_VOID(required(graph, "graph"));
    ATTACCA_TRY_VOID(required(text, "text"));
    *text = new attacca_bytes{ir::print_graph(graph->graph)};
    return {};
  });
}

attacca_status* attacca_graph_with_constant(const attacca_graph* graph, const char* input,
                                            const void* data, size_t bytes, attacca_graph** bound) {
  return attacca_graph_with_typed_constant(graph, input, nullptr, data, bytes, bound);
}

attacca_status* attacca_graph_with_typed_constant(const attacca_graph* graph, const char* input,
                                                  const char* type, const void* data, size_t bytes,
                                                  attacca_graph** bound) {
  return guarded([&]() -> Status {
    ATTACCA_TRY_VOID(required(graph, "graph"));
    ATTACCA_TRY_VOID(required(input, "input"));
    ATTACCA_TRY_VOID(required(bound, "bound"));
    if (bytes > 0) ATTACCA_TRY_VOID(required(data, "data"));
    const std::string name = input;
    const auto value = graph->graph.find(name);
    if (!value || graph->graph[*value].op != ir::Op::Input)
      return fail(
          fmt::format("the graph has no input {}", name), name,
          attacca::api::suggest(name, attacca::api::input_names(graph->graph), "its inputs are"));
    ir::Type given = graph->graph.type(*value);
    if (type != nullptr) {
      ATTACCA_TRY(given, attacca::api::parse_type(type, name));
    }
    ATTACCA_TRY(ir::Tensor tensor, attacca::api::copied_tensor(given, data, bytes, name));
    return give_graph(attacca::api::with_constants(graph->graph, {{name, name, std::move(tensor)}}),
                      bound);
  });
}

void attacca_graph_free(attacca_graph* graph) {
  delete graph;
}

attacca_status* attacca_builder_create(const char* name, attacca_builder** builder) {
  return guarded([&]() -> Status {
    ATTACCA_TRY_VOID(required(builder, "builder"));
    *builder = new attacca_builder{attacca::api::Builder(attacca::api::text_or(name, "main"))};
    return {};
  });
}

attacca_status* attacca_builder_input(attacca_builder* builder, const char* name, const char* type,
                                      attacca_value* value) {
  return guarded([&]() -> Status {
    ATTACCA_TRY_VOID(required(builder, "builder"));
    ATTACCA_TRY_VOID(required(name, "name"));
    ATTACCA_TRY_VOID(required(type, "type"));
    ATTACCA_TRY_VOID(required(value, "value"));
    return give_value(builder->builder.input(name, type), value);
  });
}

attacca_status* attacca_builder_constant(attacca_builder* builder, const char* type,
                                         const void* data, size_t bytes, attacca_value* value) {
  return guarded([&]() -> Status {
    ATTACCA_TRY_VOID(required(builder, "builder"));
    ATTACCA_TRY_VOID(required(type, "type"));
    ATTACCA_TRY_VOID(required(value, "value"));
    if (bytes > 0) ATTACCA_TRY_VOID(required(data, "data"));
    return give_value(builder->builder.constant(type, data, bytes), value);
  });
}

attacca_status* attacca_builder_call(attacca_builder* builder, const char* op,
                                     const attacca_value* operands, size_t count,
                                     const char* attributes, attacca_value* value) {
  return guarded([&]() -> Status {
    ATTACCA_TRY_VOID(required(builder, "builder"));
    ATTACCA_TRY_VOID(required(op, "op"));
    ATTACCA_TRY_VOID(required(value, "value"));
    if (count > 0) ATTACCA_TRY_VOID(required(operands, "operands"));
    return give_value(builder->builder.call(op, {operands, operands + count},
                                            attacca::api::text_or(attributes, "")),
                      value);
  });
}

attacca_status* attacca_builder_compute(attacca_builder* builder, const char* expression,
                                        const char* const* names, const attacca_value* values,
                                        size_t count, attacca_value* value) {
  return guarded([&]() -> Status {
    ATTACCA_TRY_VOID(required(builder, "builder"));
    ATTACCA_TRY_VOID(required(expression, "expression"));
    ATTACCA_TRY_VOID(required(value, "value"));
    if (count > 0) {
      ATTACCA_TRY_VOID(required(names, "names"));
      ATTACCA_TRY_VOID(required(values, "values"));
    }
    std::vector<std::pair<std::string, uint64_t>> named;
    for (size_t i = 0; i < count; ++i) {
      ATTACCA_TRY_VOID(required(names[i], "names"));
      named.emplace_back(names[i], values[i]);
    }
    return give_value(builder->builder.compute(expression, named), value);
  });
}

attacca_status* attacca_builder_kernel(attacca_builder* builder, const char* file,
                                       const attacca_kernel_argument* arguments, size_t count,
                                       const char* launch, attacca_value* value) {
  return guarded([&]() -> Status {
    ATTACCA_TRY_VOID(required(builder, "builder"));
    ATTACCA_TRY_VOID(required(file, "file"));
    ATTACCA_TRY_VOID(required(launch, "launch"));
    ATTACCA_TRY_VOID(required(value, "value"));
    if (count > 0) ATTACCA_TRY_VOID(required(arguments, "arguments"));
    std::vector<attacca::api::Builder::KernelArgument> given;
    for (size_t i = 0; i < count; ++i)
      given.push_back({text_or(arguments[i].text, ""), arguments[i].value});
    return give_value(builder->builder.kernel(file, given, launch), value);
  });
}

attacca_status* attacca_builder_output(attacca_builder* builder, attacca_value value,
                                       const char* name) {
  return guarded([&]() -> Status {
    ATTACCA_TRY_VOID(required(builder, "builder"));
    return builder->builder.output(value, attacca::api::text_or(name, ""));
  });
}

attacca_status* attacca_builder_finish(const attacca_builder* builder, attacca_graph** graph) {
  return guarded([&]() -> Status {
    ATTACCA_TRY_VOID(required(builder, "builder"));
    ATTACCA_TRY_VOID(required(graph, "graph"));
    return give_graph(builder->builder.finish(), graph);
  });
}

void attacca_builder_free(attacca_builder* builder) {
  delete builder;
}

}  // extern "C"
