// The builder of a wgmma template whose weights are not packed.
#include "wgmma/builder.hpp"

#include "wgmma/dense_weights.hpp"

namespace {

// Checks the scales of blocks, which only a SCALED template takes.
int check_scales(const attacca_gemm_arguments& g, char* reason, size_t bytes) {
  const attacca_operand* scales[] = {&g.scale_a, &g.scale_b};
  for (int i = 0; i < 2; ++i) {
    const void* pointer = scales[i]->pointer;
    if (pointer && !kScaled) return refuse(reason, bytes, "the template takes no scales of blocks");
    const char* name = i == 0 ? "the scales of A" : "the scales of B";
    if (check_address(name, pointer, sizeof(float), reason, bytes)) return 1;
  }
  return 0;
}

struct DenseWeights {
  static void describe(attacca_info&) {}

  static int check(const attacca_gemm_arguments& g, char* reason, size_t bytes) {
    if (check_scales(g, reason, bytes)) return 1;
    return check_matrices(g, reason, bytes);
  }

  static int fill(const attacca_gemm_arguments& g, Params& all, char* reason, size_t bytes) {
    all.weights = {g.scale_a, g.scale_b};
    return fill_matrices(g, all, reason, bytes);
  }
};

}  // namespace

ATTACCA_RECORD(Params, Builder<DenseWeights>::info, Builder<DenseWeights>::check, no_workspace,
               Builder<DenseWeights>::build);
