#include "nanobind/stl/pair.h"
#include "nanobind/stl/string.h"
#include "nanobind/stl/vector.h"
#include "python/binding.hpp"

namespace nb = nanobind;

namespace attacca::python {
namespace {

Options options(const std::string& device, const std::string& mode, const std::string& tuning,
                double tuning_seconds, int threads, bool batch_invariant, bool fuse) {
  return {whole(device, "device"),
          static_cast<Mode>(index_of(mode, kModeNames, "mode")),
          static_cast<Tuning>(index_of(tuning, kTuningNames, "tuning")),
          tuning_seconds,
          threads,
          fuse,
          batch_invariant};
}

DType dtype(const std::string& name) {
  return static_cast<DType>(index_of(name, kDTypeNames, "dtype"));
}

nb::bytes to_bytes(const std::string& text) {
  return nb::bytes(text.data(), text.size());
}

}  // namespace

void bind_plan(nb::module_& module) {
  nb::class_<TensorInfo>(module, "TensorInfo")
      .def_ro("name", &TensorInfo::name)
      .def_ro("dtype", &TensorInfo::dtype)
      .def_ro("type", &TensorInfo::type)
      .def_ro("shape", &TensorInfo::shape);

  nb::class_<Plan>(module, "Plan")
      .def_static(
          "compile",
          [](const Graph& graph, const std::string& device, const std::string& mode,
             const std::string& tuning, double tuning_seconds, int threads, bool batch_invariant,
             bool fuse) {
            const Options chosen =
                options(device, mode, tuning, tuning_seconds, threads, batch_invariant, fuse);
            return check_and_warn(unlocked([&] { return Plan::compile(graph, chosen); }));
          },
          nb::arg("graph"), nb::arg("device"), nb::arg("mode"), nb::arg("tuning"),
          nb::arg("tuning_seconds"), nb::arg("threads"), nb::arg("batch_invariant"),
          nb::arg("fuse"))
      .def_static(
          "matmul",
          [](const std::string& input, const std::string& b_layout, const std::string& epilogue,
             const std::string& out_dtype, const std::string& device, const std::string& mode,
             const std::string& tuning, double tuning_seconds, int threads, bool batch_invariant) {
            const Options chosen =
                options(device, mode, tuning, tuning_seconds, threads, batch_invariant, true);
            const DType in = dtype(input), out = dtype(out_dtype);
            whole(b_layout, "b_layout"), whole(epilogue, "epilogue");
            return check_and_warn(
                unlocked([&] { return Plan::matmul(in, b_layout, epilogue, out, chosen); }));
          },
          nb::arg("dtype"), nb::arg("b_layout"), nb::arg("epilogue"), nb::arg("out_dtype"),
          nb::arg("device"), nb::arg("mode"), nb::arg("tuning"), nb::arg("tuning_seconds"),
          nb::arg("threads"), nb::arg("batch_invariant"))
      .def_static(
          "load",
          [](const std::string& path, const std::string& device) {
            whole(path, "path"), whole(device, "device");
            return check_and_warn(unlocked([&] { return Plan::load(path, device); }));
          },
          nb::arg("path"), nb::arg("device") = "")
      .def_static(
          "deserialize",
          [](const nb::bytes& data, const std::string& device) {
            whole(device, "device");
            const std::string_view bytes(data.c_str(), data.size());
            return check_and_warn(unlocked([&] { return Plan::deserialize(bytes, device); }));
          },
          nb::arg("data"), nb::arg("device") = "")
      .def("serialize",
           [](const Plan& plan) {
             return to_bytes(check(unlocked([&] { return plan.serialize(); })));
           })
      .def(
          "save",
          [](const Plan& plan, const std::string& path, bool kernels) {
            const std::string& to = whole(path, "path");
            check(unlocked([&] { return kernels ? plan.save_bundle(to) : plan.save(to); }));
          },
          nb::arg("path"), nb::arg("kernels") = false)
      .def_prop_ro("device", &Plan::device)
      .def_prop_ro("mode", &Plan::mode)
      .def_prop_ro("batch_invariant", &Plan::batch_invariant)
      .def_prop_ro("inputs", &Plan::inputs)
      .def_prop_ro("outputs", &Plan::outputs)
      .def_prop_ro("symbols", &Plan::symbols)
      .def("graph_text",
           [](const Plan& plan) { return check(unlocked([&] { return plan.graph_text(); })); })
      .def("explain_text",
           [](const Plan& plan) { return check(unlocked([&] { return plan.explain_text(); })); })
      .def("explain_json",
           [](const Plan& plan) { return check(unlocked([&] { return plan.explain_json(); })); })
      .def("explain_dot",
           [](const Plan& plan) { return check(unlocked([&] { return plan.explain_dot(); })); })
      .def(
          "prepare",
          [](const Plan& plan, const std::vector<std::pair<std::string, int64_t>>& sizes,
             const std::vector<int32_t>& alignments,
             const std::vector<std::vector<int64_t>>& strides) {
            for (const auto& [symbol, value] : sizes) whole(symbol, "sizes");
            return check_and_warn(
                unlocked([&] { return plan.prepare(sizes, alignments, strides); }));
          },
          nb::arg("sizes"), nb::arg("alignments"),
          nb::arg("strides") = std::vector<std::vector<int64_t>>())
      .def(
          "prepare_parts",
          [](const Plan& plan, const std::vector<std::pair<std::string, int64_t>>& sizes,
             const std::vector<int32_t>& alignments, size_t parts) {
            for (const auto& [symbol, value] : sizes) whole(symbol, "sizes");
            return check_and_warn(
                unlocked([&] { return plan.prepare_parts(sizes, alignments, parts); }));
          },
          nb::arg("sizes"), nb::arg("alignments"), nb::arg("parts"));
}

}  // namespace attacca::python
