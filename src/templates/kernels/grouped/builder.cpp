// The builder of a grouped wgmma template.
#include "wgmma/builder.hpp"

#include "grouped/host.hpp"
#include "wgmma/dense_weights.hpp"

namespace {

struct GroupedWeights {
  static void describe(attacca_info& info) {
    describe_groups(info, kGathered, kRowStep < kTileM ? kRowStep : 0);
  }

  static int check(const attacca_gemm_arguments& g, char* reason, size_t bytes) {
    if (check_scales(g, reason, bytes)) return 1;
    return check_matrices(g, reason, bytes);
  }

  static void fill_rows(const attacca_gemm_arguments& g, Params& all) {
    fill_groups(g, all.operands, all.weights);
#if SCALED
    fill_scales(g, all.weights);
#endif
  }

  static int fill(const attacca_gemm_arguments& g, Params& all, char* reason, size_t bytes) {
    return fill_matrices(g, all, reason, bytes);
  }
};

}  // namespace

ATTACCA_RECORD(Params, Builder<GroupedWeights>::info, Builder<GroupedWeights>::check, no_workspace,
               Builder<GroupedWeights>::build);
