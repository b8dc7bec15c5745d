// The builder of a grouped wgmma template whose weights are in MXFP4.
#include "grouped/host.hpp"

namespace {

constexpr int64_t kScaleBlock = Weights::kScaleBlock;

// The bytes of the codes of B (set 0) or B1.
Factor factor_of_codes(const attacca_gemm_arguments& g, int set) {
  const attacca_operand& b = weight(g, set);
  return {.name = set == 0 ? "B" : "B1",
          .pointer = b.pointer,
          .bytes = 1,
          .inner = {"k", g.k / 2, b.row_stride},
          .outer = {"n", g.n, b.column_stride / 2},
          .batch = {"group", g.groups, b.batch_stride / 2}};
}

// Checks that a column's or a matrix's first weight begins a block of scales.
int check_blocks(const Factor& codes, const Axis& along, int64_t stride, char* reason,
                 size_t bytes) {
  if (along.extent <= 1 || stride % kScaleBlock == 0) return 0;
  return refuse(reason, bytes, "steps of %s along %s must be a multiple of %lld weights, not %lld",
                codes.name, along.name, static_cast<long long>(kScaleBlock),
                static_cast<long long>(stride));
}

struct MxFp4Weights {
  static void describe(attacca_info& info) {
    describe_groups(info);
    info.input_types[1] = nullptr;  // the weights are bf16
    info.mxfp4 = true;
    info.b_first = false;
  }

  static int check(const attacca_gemm_arguments& g, char* reason, size_t bytes) {
    if (g.k % kScaleBlock != 0)
      return refuse(reason, bytes, "k must be a multiple of %lld, not %d",
                    static_cast<long long>(kScaleBlock), g.k);
    for (int s = 0; s < kSets; ++s) {
      const Factor codes = factor_of_codes(g, s);
      const attacca_operand& b = weight(g, s);
      if (check_factor(codes, Steps::Tma, reason, bytes) ||
          check_blocks(codes, codes.outer, b.column_stride, reason, bytes) ||
          check_blocks(codes, codes.batch, b.batch_stride, reason, bytes))
        return 1;
    }
    return 0;
  }

  static int fill(const attacca_gemm_arguments& g, Params& all, char* reason, size_t bytes) {
    fill_groups(g, all.weights);
    for (int s = 0; s < kSets; ++s) {
      const attacca_operand& b = weight(g, s);
      all.weights.scales[s] = static_cast<const uint8_t*>(g.mxfp4_scales[s]);
      all.weights.column[s] = b.column_stride / kScaleBlock;
      all.weights.matrix[s] = b.batch_stride / kScaleBlock;
      if (!all.weights.scales[s]) return refuse(reason, bytes, "the scales need addresses");
      if (encode_map(factor_of_codes(g, s), Weights::kColumnBytes, kTileN, &all.b[s], reason,
                     bytes))
        return 1;
    }
    return 0;
  }
};

}  // namespace

ATTACCA_RECORD(Params, Builder<MxFp4Weights>::info, Builder<MxFp4Weights>::check, no_workspace,
               Builder<MxFp4Weights>::build);
