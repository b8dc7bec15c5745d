#include "nanobind/stl/string.h"
#include "nanobind/stl/vector.h"
#include "python/binding.hpp"

namespace nb = nanobind;

namespace attacca::python {
namespace {

template <class Pointer>
std::vector<Pointer> pointers(const std::vector<uintptr_t>& addresses) {
  std::vector<Pointer> all;
  all.reserve(addresses.size());
  for (const uintptr_t address : addresses) all.push_back(reinterpret_cast<Pointer>(address));
  return all;
}

}  // namespace

void bind_instance(nb::module_& module) {
  nb::class_<Decision>(module, "Decision")
      .def_ro("candidate", &Decision::candidate)
      .def_ro("source", &Decision::source)
      .def_ro("seconds", &Decision::seconds)
      .def_ro("unfused_seconds", &Decision::unfused_seconds)
      .def_ro("together", &Decision::together)
      .def_ro("remark", &Decision::remark);

  nb::class_<Instance>(module, "Instance")
      .def_prop_ro("workspace_bytes", &Instance::workspace_bytes)
      .def("input_shape", &Instance::input_shape, nb::arg("index"))
      .def("output_shape", &Instance::output_shape, nb::arg("index"))
      .def("input_bytes", &Instance::input_bytes, nb::arg("index"))
      .def("output_bytes", &Instance::output_bytes, nb::arg("index"))
      .def(
          "run",
          [](const Instance& instance, const std::vector<uintptr_t>& inputs,
             const std::vector<uintptr_t>& outputs, uintptr_t workspace, size_t workspace_bytes,
             uintptr_t stream) {
            const auto from = pointers<const void*>(inputs);
            const auto into = pointers<void*>(outputs);
            const Workspace scratch{reinterpret_cast<void*>(workspace), workspace_bytes};
            check(unlocked([&] {
              return instance.run(from, into, scratch, reinterpret_cast<void*>(stream));
            }));
          },
          nb::arg("inputs"), nb::arg("outputs"), nb::arg("workspace") = 0,
          nb::arg("workspace_bytes") = 0, nb::arg("stream") = 0)
      .def("decisions", &Instance::decisions)
      .def("decisions_json",
           [](const Instance& instance) { return check(instance.decisions_json()); });

  nb::class_<Device>(module, "Device")
      .def_static("open", [](const std::string& name) { return check(Device::open(name)); })
      .def("wait_value",
           [](const Device& device, uintptr_t stream, uintptr_t word, uint32_t value) {
             check(device.wait_value(reinterpret_cast<void*>(stream),
                                     reinterpret_cast<const uint32_t*>(word), value));
           })
      .def("write_value",
           [](const Device& device, uintptr_t stream, uintptr_t word, uint32_t value) {
             check(device.write_value(reinterpret_cast<void*>(stream),
                                      reinterpret_cast<uint32_t*>(word), value));
           });

  nb::class_<Parts>(module, "Parts")
      .def_prop_ro("candidate", &Parts::candidate)
      .def(
          "run",
          [](const Parts& parts, const std::vector<uintptr_t>& inputs,
             const std::vector<uintptr_t>& outputs, const std::vector<uintptr_t>& words,
             uint32_t value, uint32_t most_ms, uintptr_t stream) {
            const auto from = pointers<const void*>(inputs);
            const auto into = pointers<void*>(outputs);
            std::vector<Awaited> awaited;
            for (const uintptr_t word : words)
              awaited.push_back({reinterpret_cast<const uint32_t*>(word), value, most_ms, 1});
            check(unlocked([&] {
              return parts.run(from, into, awaited, {}, reinterpret_cast<void*>(stream));
            }));
          },
          nb::arg("inputs"), nb::arg("outputs"), nb::arg("words"), nb::arg("value"),
          nb::arg("most_ms"), nb::arg("stream"));
}

}  // namespace attacca::python
