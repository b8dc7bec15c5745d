// Kernels that write through attacca::Out (include/attacca/out.cuh): their epilogue is a call of an
// undefined function, a hole as templates have it, so that nothing needs to be proven of the
// kernel.
#pragma once

#include "gpu/kernel/user_kernel.hpp"
#include "ptx/splice/splice.hpp"

namespace attacca::gpu {

// The function that the module calls for an output of elements of this size and does not define:
// "attacca_out", "attacca_out_64"; empty where it calls none.
std::string open_output(const ptx::Module& module, uint32_t element_bytes);

// Compiles the tail for the module's target and puts it in place of every such call. The pointers
// of Tail::operands are the first of OpenEpilogue::operands.
Result<ptx::Spliced> fill_output(const ptx::Module& module, uint32_t element_bytes,
                                 const Tail& tail, const Toolchain& toolchain = {});

}  // namespace attacca::gpu
