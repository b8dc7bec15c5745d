#include "pointwise/kernel.cuh"

extern "C" __global__ void __launch_bounds__(attacca_pointwise::kThreads,
                                             attacca_pointwise::kBlocksAnSm)
    ATTACCA_TEMPLATE(const __grid_constant__ attacca_pointwise::Params params) {
  attacca_pointwise::run(params);
}
