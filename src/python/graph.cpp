#include "nanobind/stl/pair.h"
#include "nanobind/stl/string.h"
#include "nanobind/stl/vector.h"
#include "python/binding.hpp"

namespace nb = nanobind;

namespace attacca::python {
namespace {

using Sizes = std::vector<std::pair<std::string, int64_t>>;

std::span<const std::byte> bytes_of(const nb::bytes& data) {
  return {static_cast<const std::byte*>(data.data()), data.size()};
}

}  // namespace

void bind_graph(nb::module_& module) {
  nb::class_<Graph>(module, "Graph")
      .def_static(
          "parse",
          [](const std::string& text) {
            whole(text, "graph");
            return check(unlocked([&] { return Graph::parse(text); }));
          },
          nb::arg("text"))
      .def_static(
          "load",
          [](const std::string& path, const Sizes& sizes) {
            whole(path, "path");
            for (const auto& [symbol, value] : sizes) whole(symbol, "dims");
            return check(unlocked([&] { return Graph::load(path, sizes); }));
          },
          nb::arg("path"), nb::arg("sizes") = Sizes())
      .def_static(
          "from_onnx",
          [](const nb::bytes& model, const std::string& directory, const Sizes& sizes) {
            whole(directory, "directory");
            for (const auto& [symbol, value] : sizes) whole(symbol, "dims");
            const std::span<const std::byte> bytes = bytes_of(model);
            return check(unlocked([&] { return Graph::from_onnx(bytes, directory, sizes); }));
          },
          nb::arg("model"), nb::arg("directory") = "", nb::arg("sizes") = Sizes())
      .def("text", [](const Graph& graph) { return check(unlocked([&] { return graph.text(); })); })
      .def(
          "with_constant",
          [](const Graph& graph, const std::string& input, const std::string& type,
             const nb::bytes& data) {
            whole(input, "constants"), whole(type, "constants");
            const std::span<const std::byte> bytes = bytes_of(data);
            return check(unlocked([&] { return graph.with_constant(input, type, bytes); }));
          },
          nb::arg("input"), nb::arg("type"), nb::arg("data"));
}

}  // namespace attacca::python
