// The builder of a wgmma template whose weights are not packed.
#include "wgmma/builder.hpp"

#include "wgmma/dense_weights.hpp"

namespace {

struct DenseWeights {
  static void describe(attacca_info&) {}

  static int check(const attacca_gemm_arguments& g, char* reason, size_t bytes) {
    if (check_scales(g, reason, bytes)) return 1;
    return check_matrices(g, reason, bytes);
  }

  static int fill(const attacca_gemm_arguments& g, Params& all, char* reason, size_t bytes) {
    fill_scales(g, all.weights);
    return fill_matrices(g, all, reason, bytes);
  }
};

}  // namespace

ATTACCA_RECORD(Params, Builder<DenseWeights>::info, Builder<DenseWeights>::check, no_workspace,
               Builder<DenseWeights>::build);
