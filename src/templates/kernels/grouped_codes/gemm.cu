#include "grouped_codes/gemm.cuh"

extern "C" __global__ void __cluster_dims__(attacca_wgmma::kCluster, 1, 1)
    __launch_bounds__(attacca_wgmma::kThreads, attacca_wgmma::kBlocks)
        ATTACCA_TEMPLATE(const __grid_constant__ attacca_wgmma::Params params) {
  extern __shared__ __align__(1024) char shared[];
  attacca_wgmma::run(params, shared);
}
