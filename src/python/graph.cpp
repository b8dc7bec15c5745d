#include "nanobind/stl/string.h"
#include "python/binding.hpp"

namespace nb = nanobind;

namespace attacca::python {
namespace {

std::span<const std::byte> bytes_of(const nb::bytes& data) {
  return {static_cast<const std::byte*>(data.data()), data.size()};
}

}  // namespace

void bind_graph(nb::module_& module) {
  nb::class_<Graph>(module, "Graph")
      .def_static(
          "parse",
          [](const std::string& text) { return check(Graph::parse(whole(text, "graph"))); },
          nb::arg("text"))
      .def_static(
          "load", [](const std::string& path) { return check(Graph::load(whole(path, "path"))); },
          nb::arg("path"))
      .def_static(
          "from_onnx",
          [](const nb::bytes& model, const std::string& directory) {
            return check(Graph::from_onnx(bytes_of(model), whole(directory, "directory")));
          },
          nb::arg("model"), nb::arg("directory") = "")
      .def("text", [](const Graph& graph) { return check(graph.text()); })
      .def(
          "with_constant",
          [](const Graph& graph, const std::string& input, const std::string& type,
             const nb::bytes& data) {
            return check(graph.with_constant(whole(input, "constants"), whole(type, "constants"),
                                             bytes_of(data)));
          },
          nb::arg("input"), nb::arg("type"), nb::arg("data"));
}

}  // namespace attacca::python
