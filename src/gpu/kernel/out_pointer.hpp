// Kernels that write through attacca::Out (include/attacca/out.cuh). Their epilogue is a call of an
// undefined function, a hole as in templates, so that the kernel needs no analysis.
#pragma once

#include "gpu/kernel/user_kernel.hpp"
#include "ptx/splice/splice.hpp"

namespace attacca::gpu {

// The undefined function that the module calls for an output with elements of this size:
// "attacca_out", "attacca_out_64"; empty if it calls none.
std::string open_output(const ptx::Module& module, uint32_t element_bytes);

// Compiles the tail for the module's target and puts it in place of every such call. The pointers
// of Tail::operands are the first of OpenEpilogue::operands.
Result<ptx::Spliced> fill_output(const ptx::Module& module, uint32_t element_bytes,
                                 const Tail& tail, const Toolchain& toolchain = {});

}  // namespace attacca::gpu
