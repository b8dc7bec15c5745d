#include "mma/gemm.cuh"

extern "C" __global__ void __launch_bounds__(attacca_mma::kThreads)
    ATTACCA_TEMPLATE(const __grid_constant__ attacca_mma::Params params) {
  extern __shared__ __align__(128) char shared[];
  attacca_mma::run(params, shared);
}
