#include "dot/gemm.cuh"

extern "C" __global__ void __launch_bounds__(attacca_dot::kThreads, BLOCKS)
    ATTACCA_TEMPLATE(const __grid_constant__ attacca_dot::Params params) {
  extern __shared__ __align__(16) char shared[];
  attacca_dot::run(params, shared);
}
