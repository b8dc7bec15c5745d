// Packed weights in host memory, given by address.
#include "nanobind/stl/string.h"
#include "nanobind/stl/tuple.h"
#include "python/binding.hpp"

namespace nb = nanobind;

namespace attacca::python {
namespace {

const void* at(uintptr_t address) {
  return reinterpret_cast<const void*>(address);
}

}  // namespace

void bind_weights(nb::module_& module) {
  module.def(
      "pack_weights",
      [](int64_t n, int64_t k, const std::string& weights, int bits, bool zeros, int64_t group,
         const std::string& scales, uintptr_t codes_at, uintptr_t scales_at, uintptr_t zeros_at) {
        const Packing packing{n, k, weights, bits, zeros, group, scales};
        const std::string packed = check(unlocked(
            [&] { return pack_weights(packing, at(codes_at), at(scales_at), at(zeros_at)); }));
        return nb::bytes(packed.data(), packed.size());
      },
      nb::arg("n"), nb::arg("k"), nb::arg("weights"), nb::arg("bits"), nb::arg("zeros"),
      nb::arg("group"), nb::arg("scales"), nb::arg("codes_at"), nb::arg("scales_at"),
      nb::arg("zeros_at"));
  // n, k, weights, bits, zeros, group, scales.
  module.def(
      "describe_weights",
      [](uintptr_t address, size_t bytes) {
        const Packing found = check(unlocked([&] {
          return describe_weights({static_cast<const std::byte*>(at(address)), bytes});
        }));
        return std::tuple(found.n, found.k, found.weights, found.bits, found.zeros, found.group,
                          found.scales);
      },
      nb::arg("address"), nb::arg("bytes"));
}

}  // namespace attacca::python
