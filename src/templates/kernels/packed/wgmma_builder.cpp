// The builder of a wgmma template whose weights are packed.
#include "packed/checks.hpp"
#include "wgmma/builder.hpp"

namespace {

struct PackedWeights {
  static void describe(attacca_info& info) {
    describe_packed(info);
    info.packed_rounds = true;
    info.b_first = info.mixed_inputs = false;
  }

  static int check(const attacca_gemm_arguments& g, char* reason, size_t bytes) {
    return check_packed(g, reason, bytes);
  }

  static int fill(const attacca_gemm_arguments& g, Params& all, char*, size_t) {
    all.weights = attacca_packed_weights::packed_weights(g);
    return 0;
  }
};

}  // namespace

ATTACCA_RECORD(Params, Builder<PackedWeights>::info, Builder<PackedWeights>::check, no_workspace,
               Builder<PackedWeights>::build);
