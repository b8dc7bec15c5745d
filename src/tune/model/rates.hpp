// What parts of a kernel's work cost: shared by the models of its whole time.
#pragma once

#include <cmath>

#include "gpu/driver/device.hpp"
#include "templates/template.hpp"
#include "tune/model/architecture.hpp"

namespace attacca::tune {

inline double divide_up(double a, double b) {
  return std::ceil(a / b);
}

// Of an element of the products' operands.
double element_bytes(const templates::Template& kernel);

// Whether other instructions than the tensor cores' add the sums of the tiles of k.
bool adds_up(const templates::Template& kernel);

// The operations that one multiprocessor does in a second with the template's element types.
double product_rate(const templates::Template& kernel, const Architecture& arch,
                    const gpu::DeviceInfo& device);

// The cycles in which a multiprocessor multiplies a stage of a tile whose weights it widens.
double widening_cycles(const templates::Template& kernel, const WideningFit& fit);

}  // namespace attacca::tune
