// Any tensor that supports DLPack or the buffer protocol, as an address and a layout.
#include "nanobind/ndarray.h"
#include "nanobind/stl/tuple.h"
#include "nanobind/stl/vector.h"
#include "python/binding.hpp"

namespace nb = nanobind;

namespace attacca::python {
namespace {

// Keeps the tensor's memory alive.
struct View {
  nb::ndarray<nb::ro> tensor;

  std::vector<int64_t> shape() const {
    std::vector<int64_t> all(tensor.ndim());
    for (size_t axis = 0; axis < all.size(); ++axis)
      all[axis] = static_cast<int64_t>(tensor.shape(axis));
    return all;
  }
  std::vector<int64_t> strides() const {
    std::vector<int64_t> all(tensor.ndim());
    for (size_t axis = 0; axis < all.size(); ++axis) all[axis] = tensor.stride(axis);
    return all;
  }
};

}  // namespace

void bind_dlpack(nb::module_& module) {
  nb::class_<View>(module, "View")
      .def_prop_ro("address",
                   [](const View& view) { return reinterpret_cast<uintptr_t>(view.tensor.data()); })
      .def_prop_ro("shape", &View::shape)
      .def_prop_ro("strides", &View::strides)
      .def_prop_ro("dtype",
                   [](const View& view) {
                     const auto dtype = view.tensor.dtype();
                     return std::tuple<int, int, int>(dtype.code, dtype.bits, dtype.lanes);
                   })
      .def_prop_ro("device", [](const View& view) {
        return std::tuple<int, int>(view.tensor.device_type(), view.tensor.device_id());
      });
  // Signatures without numpy's types: numpy may not be installed.
  module.def(
      "view", [](nb::ndarray<nb::ro> tensor) { return View{std::move(tensor)}; }, nb::arg("tensor"),
      nb::sig("def view(tensor: object) -> View"));
  module.def(
      "writable_view", [](nb::ndarray<> tensor) { return View{nb::ndarray<nb::ro>(tensor)}; },
      nb::arg("tensor"), nb::sig("def writable_view(tensor: object) -> View"));
}

}  // namespace attacca::python
