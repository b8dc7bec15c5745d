// The builder of a wgmma template whose weights are bytes.
#include "wgmma/builder.hpp"

#include "packed/codes.cuh"

namespace {

struct ByteWeights {
  static Factor factor(const attacca_gemm_arguments& g) { return factor_b(g, 0, kBKMajor, 1); }

  static void describe(attacca_info& info) {
    info.input_types[0] = attacca_packed_weights::kBf16 ? "bf16" : "f16";
    info.input_types[1] = nullptr;
    info.widened = true;
    info.b_first = false;
  }

  static int check(const attacca_gemm_arguments& g, char* reason, size_t bytes) {
    return check_factor(factor(g), Steps::Tma, reason, bytes);
  }

  static int fill(const attacca_gemm_arguments& g, Params& all, char* reason, size_t bytes) {
    all.weights.flip = 0x01010101u * static_cast<uint32_t>(g.packed.zero);
    return encode_map(factor(g), Weights::kBox, kBKMajor ? kTileN : Weights::kBox, &all.b[0],
                      reason, bytes);
  }
};

}  // namespace

ATTACCA_RECORD(Params, Builder<ByteWeights>::info, Builder<ByteWeights>::check, no_workspace,
               Builder<ByteWeights>::build);
