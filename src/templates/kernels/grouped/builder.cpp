// The builder of a grouped wgmma template.
#include "wgmma/builder.hpp"

#include "wgmma/dense_weights.hpp"

namespace {

struct GroupedWeights {
  static void describe(attacca_info& info) {
    info.grouped = true;
    info.gathered = kGathered;
  }

  static int check(const attacca_gemm_arguments& g, char* reason, size_t bytes) {
    return check_matrices(g, reason, bytes);
  }

  static int fill(const attacca_gemm_arguments& g, Params& all, char* reason, size_t bytes) {
    all.weights.ends = static_cast<const int32_t*>(g.group_ends);
    all.weights.stride = g.group_stride;
    all.weights.groups = g.groups;
#ifdef GATHERED
    const int64_t pitch = g.a_rows.rows > 1 ? g.a.row_stride * kElementBytes : 0;
    all.weights.rows = {g.a.pointer, pitch / 16, g.a_rows};
#endif
    return fill_matrices(g, all, reason, bytes);
  }
};

}  // namespace

ATTACCA_RECORD(Params, Builder<GroupedWeights>::info, Builder<GroupedWeights>::check, no_workspace,
               Builder<GroupedWeights>::build);
