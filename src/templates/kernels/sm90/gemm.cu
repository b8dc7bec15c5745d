// One row of the table: the kernel for nvcc, its builder for the host's compiler.
#include "common/record.hpp"

#if defined(ATTACCA_BUILDER)

#include "builder.hpp"

ATTACCA_RECORD(attacca_sm90::Kernel::Params, attacca_sm90::info, attacca_sm90::check,
               attacca_sm90::workspace, attacca_sm90::build);

#else

#include "kernel.cuh"

extern "C" __global__ void __cluster_dims__(SM90_CLUSTER_M, SM90_CLUSTER_N, 1)
    __launch_bounds__(attacca_sm90::Kernel::MaxThreadsPerBlock, 1)
        ATTACCA_TEMPLATE(const __grid_constant__ attacca_sm90::Kernel::Params params) {
  extern __shared__ char shared[];
  attacca_sm90::Kernel kernel;
  kernel(params, shared);
}

#endif
