// The builder of a wgmma template whose weights are numbers.
#include "wgmma/builder.hpp"

namespace {

// Of alternate columns, both as one matrix.
Factor factor_b(const attacca_gemm_arguments& g, int set) {
  const attacca_operand& b = weight(g, set);
  const char* name = set == 0 ? "B" : "B1";
  if (kBKMajor)
    return {name,
            b.pointer,
            "k",
            g.k,
            b.row_stride,
            "n",
            g.n,
            b.column_stride,
            b.batch_stride,
            {kTileK, kPaired ? kPairRows : kLoadN}};
  if (!kAlternate)
    return {name,           b.pointer,           "n", g.n, b.column_stride, "k", g.k, b.row_stride,
            b.batch_stride, {kColumnBox, kTileK}};
  return {"B",
          std::min(g.b.pointer, g.b1.pointer),
          "n",
          2 * int64_t{g.n},
          1,
          "k",
          g.k,
          b.row_stride,
          b.batch_stride,
          {kColumnBox, kTileK}};
}

// Whether B and B1 are what an ALTERNATE template takes for one matrix.
int check_alternate(const attacca_gemm_arguments& g, char* reason, size_t bytes) {
  const auto* b = static_cast<const uint16_t*>(g.b.pointer);
  const auto* b1 = static_cast<const uint16_t*>(g.b1.pointer);
  const bool neighbours = (!b && !b1) || b1 == b + 1 || b == b1 + 1;
  const bool alike = (g.k <= 1 || g.b.row_stride == g.b1.row_stride) &&
                     (g.batch <= 1 || g.b.batch_stride == g.b1.batch_stride);
  const bool alternate = g.n <= 1 || (g.b.column_stride == 2 && g.b1.column_stride == 2);
  if (neighbours && alike && alternate) return 0;
  return refuse(reason, bytes, "B and B1 must be alternate columns of one matrix");
}

struct DenseWeights {
  static void describe(attacca_info&) {}

  static int check(const attacca_gemm_arguments& g, char* reason, size_t bytes) {
    if (kAlternate && check_alternate(g, reason, bytes)) return 1;
    for (int s = 0; s < kMaps; ++s)
      if (check_factor(factor_b(g, s), g, reason, bytes)) return 1;
    return 0;
  }

  static int fill(const attacca_gemm_arguments& g, Params& all, char* reason, size_t bytes) {
    all.weights = {g.scale_a, g.scale_b};
    all.odd_first = kAlternate && g.b.pointer > g.b1.pointer;
    for (int s = 0; s < kMaps; ++s)
      if (encode(factor_b(g, s), g, all.b[s], reason, bytes)) return 1;
    return 0;
  }
};

}  // namespace

ATTACCA_RECORD(Params, Builder<DenseWeights>::info, Builder<DenseWeights>::check, no_workspace,
               Builder<DenseWeights>::build);
