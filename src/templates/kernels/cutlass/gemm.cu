// One row of the table: the kernel for nvcc, its builder for the host's compiler.
#include "host/record.hpp"

#if defined(ATTACCA_BUILDER)

#include "builder.hpp"

ATTACCA_RECORD(attacca_cutlass::Kernel::Params, attacca_cutlass::info, attacca_cutlass::check,
               attacca_cutlass::workspace, attacca_cutlass::build);

#else

#include "kernel.cuh"

extern "C" __global__ void __cluster_dims__(GEMM_CLUSTER_M, GEMM_CLUSTER_N, 1)
    __launch_bounds__(attacca_cutlass::Kernel::MaxThreadsPerBlock, 1)
        ATTACCA_TEMPLATE(const __grid_constant__ attacca_cutlass::Kernel::Params params) {
  extern __shared__ char shared[];
  attacca_cutlass::Kernel kernel;
  kernel(params, shared);
}

#endif
