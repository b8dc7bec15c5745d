// Running a kernel of the table on the interpreter.
#pragma once

#include <cstddef>
#include <vector>

#include "kernels/arguments.hpp"

namespace attacca::kernels {

// The buffers after the kernel ran. The output begins as `poison`, all its bytes. `appended` are
// buffers whose addresses follow the kernel's own parameters, moved by `shift` elements off their
// alignment of 256 bytes.
Result<std::vector<ir::Tensor>> run_interpreted(const ptx::Module& module, const Kernel& kernel,
                                                const Arguments& arguments, std::byte poison,
                                                const std::vector<ir::Tensor>& appended = {},
                                                size_t shift = 0);

// Empty, or the first element that differs. NaN equals NaN.
std::string compare_elements(const ir::Tensor& got, const ir::Tensor& want);

}  // namespace attacca::kernels
