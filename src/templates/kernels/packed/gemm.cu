#include "packed/gemm.cuh"

extern "C" __global__ void __launch_bounds__(attacca_packed_weights::kThreads, BLOCKS)
#if CLUSTER > 1
    __cluster_dims__(CLUSTER, 1, 1)
#endif
        ATTACCA_TEMPLATE(const __grid_constant__ attacca_packed_weights::Params params) {
  extern __shared__ __align__(1024) char shared[];
  attacca_packed_weights::run(params, shared);
}
