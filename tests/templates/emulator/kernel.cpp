// One emulated kernel. Everything of it is local to this file: others are compiled from the same
// sources with other DEFINES. EMULATED_POINTWISE, EMULATED_WGMMA, EMULATED_GROUPED,
// EMULATED_GROUPED_CODES, EMULATED_GROUPED_MMA, EMULATED_PACKED_WGMMA, EMULATED_PACKED,
// EMULATED_WIDE, EMULATED_DOT: which of the kernels.
#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <cstring>

#include "abi.h"
#include "host/record.hpp"
#include "templates/emulator/kernels.hpp"

namespace {

#if EMULATED_POINTWISE
#include "pointwise/builder.cpp"
namespace emulated = attacca_pointwise;
#elif EMULATED_PACKED
#include "packed/builder.cpp"
#include "packed/gemm.cuh"
namespace emulated = attacca_packed_weights;
#elif EMULATED_DOT
#include "dot/builder.cpp"
#include "dot/gemm.cuh"
namespace emulated = attacca_dot;
#elif EMULATED_PACKED_WGMMA
#include "packed/wgmma.cuh"
#include "packed/wgmma_builder.cpp"
namespace emulated = attacca_wgmma;
#elif EMULATED_WIDE
#include "wide/builder.cpp"
#include "wide/gemm.cuh"
namespace emulated = attacca_wgmma;
#elif EMULATED_GROUPED
#include "grouped/builder.cpp"
#include "grouped/gemm.cuh"
namespace emulated = attacca_wgmma;
#elif EMULATED_GROUPED_CODES
#include "grouped_codes/builder.cpp"
#include "grouped_codes/gemm.cuh"
namespace emulated = attacca_wgmma;
#elif EMULATED_GROUPED_MMA
#include "grouped_mma/builder.cpp"
#include "grouped_mma/gemm.cuh"
namespace emulated = attacca_grouped_mma;
#elif EMULATED_WGMMA
#include "wgmma/builder.cpp"
#include "wgmma/gemm.cuh"
namespace emulated = attacca_wgmma;
#else
#include "mma/builder.cpp"
#include "mma/gemm.cuh"
namespace emulated = attacca_mma;
#endif

[[maybe_unused]] uint32_t bits_of_bf16(float x) {
  if (x != x) return 0x7fff;
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  return (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}
[[maybe_unused]] float float_of_bf16(uint32_t bits) {
  return std::bit_cast<float>(bits << 16);
}

#if HOLE_ACCUMULATORS
float accumulator(uint32_t bits) {
  return ELEMENT == ELEMENT_S8 ? static_cast<float>(static_cast<int32_t>(bits))
                               : std::bit_cast<float>(bits);
}
#endif

// The test's epilogue, which problem.cpp repeats: the accumulator, and every operand and
// coordinate with a weight of its own (with accumulators_alone no coordinate). 16-bit operands are
// bf16, 32-bit ones f32, vectors unsigned integers, an 8-bit result the low byte of a whole number.
// It stores its f32 values through the context too.
attacca_results attacca_hole(HOLE_PARAMETERS) {
  float x[2];
  const bool alone = attacca::emulator::accumulators_alone;
  for (int i = 0; i < 2; ++i)
    x[i] = alone ? 0 : static_cast<float>(3 * row + 5 * (column + i) + 7 * batch);
#if HOLE_ACCUMULATORS
  x[0] += accumulator(acc0_0);
  x[1] += accumulator(acc0_1);
#endif
#if HOLE_ACCUMULATORS == 2
  x[0] -= 2 * accumulator(acc1_0);
  x[1] -= 2 * accumulator(acc1_1);
#endif
#define ADD_FULL_16(i)                               \
  x[0] += (i + 2) * float_of_bf16(full##i & 0xffff); \
  x[1] += (i + 2) * float_of_bf16(full##i >> 16);
#define ADD_FULL_32(i)                                 \
  x[0] += (i + 2) * std::bit_cast<float>(full##i##_0); \
  x[1] += (i + 2) * std::bit_cast<float>(full##i##_1);
#ifdef HOLE_FULL0
  HOLE_PASTE(ADD_FULL_, HOLE_FULL0)
  (0)
#endif
#ifdef HOLE_FULL1
      HOLE_PASTE(ADD_FULL_, HOLE_FULL1)(1)
#endif
#ifdef HOLE_FULL2
          HOLE_PASTE(ADD_FULL_, HOLE_FULL2)(2)
#endif
#ifdef HOLE_FULL3
              HOLE_PASTE(ADD_FULL_, HOLE_FULL3)(3)
#endif
                  x[0] += 11 * static_cast<float>(row0_0) + 13 * static_cast<float>(row1_0);
  x[1] += 11 * static_cast<float>(row0_1) + 13 * static_cast<float>(row1_1);
  for (float& value : x) value += 17 * static_cast<float>(col0) + 19 * static_cast<float>(col1);
  attacca_results results = {};
  int word = 0;
  for (int i = 0; i < kResults; ++i) {
    const float y[2] = {x[0] + static_cast<float>(i), x[1] + static_cast<float>(i)};
    if (kResultBits[i] == 8) {
      results.word[word++] = (static_cast<uint32_t>(static_cast<int64_t>(y[0])) & 0xff) |
                             (static_cast<uint32_t>(static_cast<int64_t>(y[1])) & 0xff) << 8;
    } else if (kResultBits[i] == 16 && alone) {
      const int down = attacca::emulator::upper_halves ? 16 : 0;
      results.word[word++] = (std::bit_cast<uint32_t>(y[0]) >> down & 0xffff) |
                             std::bit_cast<uint32_t>(y[1]) >> down << 16;
    } else if (kResultBits[i] == 16) {
      results.word[word++] = bits_of_bf16(y[0]) | bits_of_bf16(y[1]) << 16;
    } else {
      results.word[word++] = std::bit_cast<uint32_t>(y[0]);
      results.word[word++] = std::bit_cast<uint32_t>(y[1]);
    }
  }
#if HOLE_MAXIMA
  for (int i = 0; i < 2; ++i)
    if (row < context->rows && column + i < context->columns)
      results.word[word] = std::max(results.word[word], std::bit_cast<uint32_t>(std::fabs(x[i])));
#endif
  const attacca_operand& out = context->operand[0];
  for (int i = 0; out.pointer && i < 2 && row < context->rows && column + i < context->columns; ++i)
    static_cast<float*>(out.pointer)[batch * out.batch_stride + row * out.row_stride +
                                     (column + i) * out.column_stride] = x[i];
  return results;
}

void run_kernel(const attacca::emulator::Launch& launch, const void* params) {
  const auto& typed = *static_cast<const emulated::Params*>(params);
  attacca::emulator::launch(launch, [&]([[maybe_unused]] char* shared) {
#if EMULATED_POINTWISE
    emulated::run(typed);
#else
    emulated::run(typed, shared);
#endif
  });
}

const bool kAdded =
    attacca::emulator::add_kernel({&ATTACCA_PASTE(attacca_record_, ATTACCA_TEMPLATE), run_kernel});

}  // namespace
