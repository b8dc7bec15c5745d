#include "sm80/gemm.cuh"

extern "C" __global__ void __launch_bounds__(attacca_sm80::kThreads)
    ATTACCA_TEMPLATE(const __grid_constant__ attacca_sm80::Params params) {
  extern __shared__ __align__(128) char shared[];
  attacca_sm80::run(params, shared);
}
