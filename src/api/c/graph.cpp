// The C interface: graphs and builders.
#include "fmt/format.h"

#include "api/builder.hpp"
#include "api/c/handles.hpp"
#include "api/c/sizes.hpp"
#include "api/c/status.hpp"
#include "api/constants.hpp"
#include "api/names.hpp"
#include "import/onnx/onnx.hpp"
#include "ir/text/text.hpp"
#include "run/pipeline.hpp"

namespace {

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
    ATTACCA_REQUIRE(text, graph);
    return give_graph(ir::parse_graph(text), graph);
  });
}

attacca_status* attacca_graph_load(const char* path, attacca_graph** graph) {
  return attacca_graph_load_sized(path, nullptr, 0, graph);
}

attacca_status* attacca_graph_from_onnx(const void* model, size_t bytes, const char* directory,
                                        attacca_graph** graph) {
  return attacca_graph_from_onnx_sized(model, bytes, directory, nullptr, 0, graph);
}

attacca_status* attacca_graph_load_sized(const char* path, const attacca_size* sizes, size_t count,
                                         attacca_graph** graph) {
  return guarded([&]() -> Status {
    ATTACCA_REQUIRE(path, graph);
    ATTACCA_TRY(const ir::SymbolValues values, attacca::api::read_sizes(sizes, count));
    return give_graph(attacca::run::load_graph(path, values), graph);
  });
}

attacca_status* attacca_graph_from_onnx_sized(const void* model, size_t bytes,
                                              const char* directory, const attacca_size* sizes,
                                              size_t count, attacca_graph** graph) {
  return guarded([&]() -> Status {
    ATTACCA_REQUIRE(model, graph);
    const std::string_view text(static_cast<const char*>(model), bytes);
    ATTACCA_TRY(const ir::SymbolValues values, attacca::api::read_sizes(sizes, count));
    return give_graph(attacca::import::parse_onnx(text, text_or(directory, ""), {}, values), graph);
  });
}

attacca_status* attacca_graph_text(const attacca_graph* graph, attacca_bytes** text) {
  return guarded([&]() -> Status {
    ATTACCA_REQUIRE(graph, text);
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
    ATTACCA_REQUIRE(graph, input, bound);
    if (bytes > 0) ATTACCA_REQUIRE(data);
    const std::string name = input;
    ATTACCA_TRY(const ir::Value value, api::find_input(graph->graph, name));
    ir::Type given = graph->graph.type(value);
    given.strides.clear();  // the elements lie row by row
    if (type != nullptr) {
      ATTACCA_TRY(given, api::parse_type(type, name));
    }
    ATTACCA_TRY(ir::Tensor tensor, api::copied_tensor(given, data, bytes, name));
    return give_graph(api::with_constants(graph->graph, {{name, name, std::move(tensor)}}), bound);
  });
}

void attacca_graph_free(attacca_graph* graph) {
  delete graph;
}

attacca_status* attacca_builder_create(const char* name, attacca_builder** builder) {
  return guarded([&]() -> Status {
    ATTACCA_REQUIRE(builder);
    *builder = new attacca_builder{api::Builder(text_or(name, "main"))};
    return {};
  });
}

attacca_status* attacca_builder_input(attacca_builder* builder, const char* name, const char* type,
                                      attacca_value* value) {
  return guarded([&]() -> Status {
    ATTACCA_REQUIRE(builder, name, type, value);
    return give_value(builder->builder.input(name, type), value);
  });
}

attacca_status* attacca_builder_constant(attacca_builder* builder, const char* type,
                                         const void* data, size_t bytes, attacca_value* value) {
  return guarded([&]() -> Status {
    ATTACCA_REQUIRE(builder, type, value);
    if (bytes > 0) ATTACCA_REQUIRE(data);
    return give_value(builder->builder.constant(type, data, bytes), value);
  });
}

attacca_status* attacca_builder_call(attacca_builder* builder, const char* op,
                                     const attacca_value* operands, size_t count,
                                     const char* attributes, attacca_value* value) {
  return guarded([&]() -> Status {
    ATTACCA_REQUIRE(builder, op, value);
    if (count > 0) ATTACCA_REQUIRE(operands);
    return give_value(
        builder->builder.call(op, {operands, operands + count}, text_or(attributes, "")), value);
  });
}

attacca_status* attacca_builder_compute(attacca_builder* builder, const char* expression,
                                        const char* const* names, const attacca_value* values,
                                        size_t count, attacca_value* value) {
  return guarded([&]() -> Status {
    ATTACCA_REQUIRE(builder, expression, value);
    if (count > 0) ATTACCA_REQUIRE(names, values);
    std::vector<std::pair<std::string, uint64_t>> named;
    for (size_t i = 0; i < count; ++i) {
      ATTACCA_TRY_VOID(required("names", {names[i]}));
      named.emplace_back(names[i], values[i]);
    }
    return give_value(builder->builder.compute(expression, named), value);
  });
}

attacca_status* attacca_builder_kernel(attacca_builder* builder, const char* file,
                                       const attacca_kernel_argument* arguments, size_t count,
                                       const char* launch, attacca_value* value) {
  return guarded([&]() -> Status {
    ATTACCA_REQUIRE(builder, file, launch, value);
    if (count > 0) ATTACCA_REQUIRE(arguments);
    std::vector<api::Builder::KernelArgument> given;
    for (size_t i = 0; i < count; ++i)
      given.push_back({text_or(arguments[i].text, ""), arguments[i].value});
    return give_value(builder->builder.kernel(file, given, launch), value);
  });
}

attacca_status* attacca_builder_output(attacca_builder* builder, attacca_value value,
                                       const char* name) {
  return guarded([&]() -> Status {
    ATTACCA_REQUIRE(builder);
    return builder->builder.output(value, text_or(name, ""));
  });
}

attacca_status* attacca_builder_finish(const attacca_builder* builder, attacca_graph** graph) {
  return guarded([&]() -> Status {
    ATTACCA_REQUIRE(builder, graph);
    return give_graph(builder->builder.finish(), graph);
  });
}

void attacca_builder_free(attacca_builder* builder) {
  delete builder;
}

}  // extern "C"
