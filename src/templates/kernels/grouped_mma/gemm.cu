#include "grouped_mma/gemm.cuh"

extern "C" __global__ void __launch_bounds__(attacca_grouped_mma::kThreads,
                                             attacca_grouped_mma::kBlocks)
    ATTACCA_TEMPLATE(const __grid_constant__ attacca_grouped_mma::Params params) {
  extern __shared__ __align__(128) char shared[];
  attacca_grouped_mma::run(params, shared);
}
