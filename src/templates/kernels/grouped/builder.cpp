// The builder of a grouped wgmma template.
#include "wgmma/builder.hpp"

#include "wgmma/dense_weights.hpp"

namespace {

struct GroupedWeights {
  static void describe(attacca_info& info) { info.grouped = true; }

  static int check(const attacca_gemm_arguments& g, char* reason, size_t bytes) {
    return check_matrices(g, reason, bytes);
  }

  static int fill(const attacca_gemm_arguments& g, Params& all, char* reason, size_t bytes) {
    all.weights = {static_cast<const int32_t*>(g.group_ends), g.group_stride, g.groups};
    return fill_matrices(g, all, reason, bytes);
  }
};

}  // namespace

ATTACCA_RECORD(Params, Builder<GroupedWeights>::info, Builder<GroupedWeights>::check, no_workspace,
               Builder<GroupedWeights>::build);
