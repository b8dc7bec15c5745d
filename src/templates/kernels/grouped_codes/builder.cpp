// The builder of a grouped wgmma template whose weights are in codes.
#include "wgmma/builder.hpp"

#include "grouped/host.hpp"

namespace {

constexpr int kBits = Weights::kCodeBits;
constexpr bool kFloats = attacca_packed_weights::kCodeFloats;

// The bytes of the codes of B (set 0) or B1.
Factor factor_of_codes(const attacca_gemm_arguments& g, int set) {
  const attacca_operand& b = weight(g, set);
  return {.name = set == 0 ? "B" : "B1",
          .pointer = b.pointer,
          .bytes = 1,
          .inner = {"k", g.k * kBits / 8, b.row_stride},
          .outer = {"n", g.n, b.column_stride * kBits / 8},
          .batch = {"group", g.groups, b.batch_stride * kBits / 8}};
}

// Checks that a column's or a matrix's first weight begins a block of scales.
int check_blocks(const attacca_gemm_arguments& g, const Factor& codes, const Axis& along,
                 int64_t stride, char* reason, size_t bytes) {
  if (along.extent <= 1 || stride % g.codes.block == 0) return 0;
  return refuse(reason, bytes, "steps of %s along %s must be a multiple of %lld weights, not %lld",
                codes.name, along.name, static_cast<long long>(g.codes.block),
                static_cast<long long>(stride));
}

// How far the number of 32 values of k must be shifted to be that of its scale; -1: there is none.
int shift_of(const attacca_gemm_arguments& g) {
  if (g.codes.block >= g.k) return 31;
  for (int shift = 0; shift < 26; ++shift)
    if (g.codes.block == int64_t{Weights::kScaleBlock} << shift) return shift;
  return -1;
}

struct CodeWeights {
  static void describe(attacca_info& info) {
    describe_groups(info, kGathered);
    info.input_types[0] = attacca_packed_weights::kBf16 ? "bf16" : "f16";
    info.input_types[1] = nullptr;  // the weights are of A's type
    info.code_bits = kBits;
    info.code_floats = kFloats;
    info.b_first = info.mixed_inputs = false;
  }

  static int check(const attacca_gemm_arguments& g, char* reason, size_t bytes) {
    if (g.k % Weights::kScaleBlock != 0)
      return refuse(reason, bytes, "k must be a multiple of %d, not %d", Weights::kScaleBlock, g.k);
    if (g.codes.block < 1 || shift_of(g) < 0 || (kFloats && g.codes.block != Weights::kScaleBlock))
      return refuse(reason, bytes, "scales of %lld weights; 32, 64, 128, ... or all are taken",
                    static_cast<long long>(g.codes.block));
    for (int s = 0; s < kSets; ++s) {
      const Factor codes = factor_of_codes(g, s);
      const attacca_operand& b = weight(g, s);
      if (check_factor(codes, Steps::Tma, reason, bytes) ||
          check_address("the scales", g.codes.scales[s], kFloats ? 1 : 2, reason, bytes) ||
          check_blocks(g, codes, codes.outer, b.column_stride, reason, bytes) ||
          check_blocks(g, codes, codes.batch, b.batch_stride, reason, bytes))
        return 1;
    }
    return 0;
  }

  static void fill_rows(const attacca_gemm_arguments& g, Params& all) {
    fill_groups(g, all.operands, all.weights);
  }

  static int fill(const attacca_gemm_arguments& g, Params& all, char* reason, size_t bytes) {
    for (int s = 0; s < kSets; ++s) {
      const attacca_operand& b = weight(g, s);
      all.weights.scales[s] = g.codes.scales[s];
      all.weights.column[s] = b.column_stride / g.codes.block;
      all.weights.matrix[s] = b.batch_stride / g.codes.block;
      const bool has_zeros = !g.codes.has_zeros || g.codes.zeros[s];
      if (!all.weights.scales[s] || !has_zeros)
        return refuse(reason, bytes, "scales and zero points need addresses");
      if (encode_map(factor_of_codes(g, s), Weights::kColumnBytes, kTileN, &all.b[s], reason,
                     bytes))
        return 1;
    }
#if !CODE_FLOATS
    fill_integers(g, all.weights);
#endif
    return 0;
  }

 private:
#if !CODE_FLOATS
  static void fill_integers(const attacca_gemm_arguments& g, Weights::Params& weights) {
    for (int s = 0; s < kSets; ++s)
      weights.zeros[s] =
          g.codes.has_zeros ? static_cast<const uint8_t*>(g.codes.zeros[s]) : nullptr;
    weights.shift = shift_of(g);
    // Signed codes become unsigned ones whose middle means 0.
    weights.zero = g.codes.is_signed ? 1 << (kBits - 1) : g.codes.zero;
    weights.flip = !g.codes.is_signed ? 0 : kBits == 4 ? 0x00080008 : 0x8080;
  }
#endif
};

}  // namespace

ATTACCA_RECORD(Params, Builder<CodeWeights>::info, Builder<CodeWeights>::check, no_workspace,
               Builder<CodeWeights>::build);
