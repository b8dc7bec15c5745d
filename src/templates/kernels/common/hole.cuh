// The hole (epilogue/hole.hpp) as a template's source declares it, from the row's DEFINES:
//   HOLE_ACCUMULATORS        accumulator sets: 0, 1 (default) or 2
//   HOLE_FULL0 .. 3          bits of the full slots: 16 or 32; undefined: no such slot
//   HOLE_ROWS, HOLE_COLUMNS  vector slots: 0, 1 or 2 (default)
//   HOLE_RESULT0, 1          bits of the results: 8, 16 or 32; undefined: no such result
//   HOLE_MAXIMA              1: the hole also returns the bits of an f32 that is not negative, and
//                            the kernel keeps the largest
// A hole without results returns one word that has no meaning. Kernels use the constants below and
// call_hole(), which takes and gives arrays.
#pragma once

#include <cstdint>

#include "abi.h"
#include "common/device.cuh"

#ifndef HOLE_ACCUMULATORS
#define HOLE_ACCUMULATORS 1
#endif
#ifndef HOLE_ROWS
#define HOLE_ROWS 2
#endif
#ifndef HOLE_COLUMNS
#define HOLE_COLUMNS 2
#endif
#ifndef HOLE_MAXIMA
#define HOLE_MAXIMA 0
#endif

namespace attacca_hole_bits {
// Bits of slot i; 0: no such slot.
#ifdef HOLE_FULL0
constexpr int kFull0 = HOLE_FULL0;
#else
constexpr int kFull0 = 0;
#endif
#ifdef HOLE_FULL1
constexpr int kFull1 = HOLE_FULL1;
#else
constexpr int kFull1 = 0;
#endif
#ifdef HOLE_FULL2
constexpr int kFull2 = HOLE_FULL2;
#else
constexpr int kFull2 = 0;
#endif
#ifdef HOLE_FULL3
constexpr int kFull3 = HOLE_FULL3;
#else
constexpr int kFull3 = 0;
#endif
#ifdef HOLE_RESULT0
constexpr int kResult0 = HOLE_RESULT0;
#else
constexpr int kResult0 = 0;
#endif
#ifdef HOLE_RESULT1
constexpr int kResult1 = HOLE_RESULT1;
#else
constexpr int kResult1 = 0;
#endif
}  // namespace attacca_hole_bits

// Slots are numbered without gaps: HOLE_FULL1 requires HOLE_FULL0.
constexpr int kFullBits[4] = {attacca_hole_bits::kFull0, attacca_hole_bits::kFull1,
                              attacca_hole_bits::kFull2, attacca_hole_bits::kFull3};
constexpr int kFulls =
    (kFullBits[0] > 0) + (kFullBits[1] > 0) + (kFullBits[2] > 0) + (kFullBits[3] > 0);
constexpr int kAccumulators = HOLE_ACCUMULATORS;
constexpr int kRows = HOLE_ROWS;
constexpr int kColumns = HOLE_COLUMNS;
constexpr int kResultBits[2] = {attacca_hole_bits::kResult0, attacca_hole_bits::kResult1};
constexpr int kResults = (kResultBits[0] > 0) + (kResultBits[1] > 0);
// Words that hold a pair of elements.
constexpr int hole_words(int bits) {
  return ATTACCA_HOLE_WORDS(bits);
}
constexpr int kMaxima = HOLE_MAXIMA;
// The maximum's word follows the results'.
constexpr int kMaximumWord = hole_words(kResultBits[0]) + hole_words(kResultBits[1]);
constexpr int kResultWords = kMaximumWord + kMaxima;

#ifdef ATTACCA_DEVICE_CODE

#define HOLE_PASTE_(a, b) a##b
#define HOLE_PASTE(a, b) HOLE_PASTE_(a, b)

// Parameters and arguments of the slots that the row has, each followed by a comma.
#define HOLE_FULL_ARGUMENTS_16(i) full[i][0],
#define HOLE_FULL_ARGUMENTS_32(i) full[i][0], full[i][1],

#if HOLE_ACCUMULATORS == 0
#define HOLE_ACCUMULATOR_PARAMETERS
#define HOLE_ACCUMULATOR_ARGUMENTS
#elif HOLE_ACCUMULATORS == 1
#define HOLE_ACCUMULATOR_PARAMETERS ATTACCA_HOLE_ACCUMULATOR_PARAMETERS(0)
#define HOLE_ACCUMULATOR_ARGUMENTS acc[0][0], acc[0][1],
#else
#define HOLE_ACCUMULATOR_PARAMETERS \
  ATTACCA_HOLE_ACCUMULATOR_PARAMETERS(0) ATTACCA_HOLE_ACCUMULATOR_PARAMETERS(1)
#define HOLE_ACCUMULATOR_ARGUMENTS acc[0][0], acc[0][1], acc[1][0], acc[1][1],
#endif

#ifdef HOLE_FULL0
#define HOLE_FULL0_PARAMETERS HOLE_PASTE(ATTACCA_HOLE_FULL_PARAMETERS_, HOLE_FULL0)(0)
#define HOLE_FULL0_ARGUMENTS HOLE_PASTE(HOLE_FULL_ARGUMENTS_, HOLE_FULL0)(0)
#else
#define HOLE_FULL0_PARAMETERS
#define HOLE_FULL0_ARGUMENTS
#endif
#ifdef HOLE_FULL1
#define HOLE_FULL1_PARAMETERS HOLE_PASTE(ATTACCA_HOLE_FULL_PARAMETERS_, HOLE_FULL1)(1)
#define HOLE_FULL1_ARGUMENTS HOLE_PASTE(HOLE_FULL_ARGUMENTS_, HOLE_FULL1)(1)
#else
#define HOLE_FULL1_PARAMETERS
#define HOLE_FULL1_ARGUMENTS
#endif
#ifdef HOLE_FULL2
#define HOLE_FULL2_PARAMETERS HOLE_PASTE(ATTACCA_HOLE_FULL_PARAMETERS_, HOLE_FULL2)(2)
#define HOLE_FULL2_ARGUMENTS HOLE_PASTE(HOLE_FULL_ARGUMENTS_, HOLE_FULL2)(2)
#else
#define HOLE_FULL2_PARAMETERS
#define HOLE_FULL2_ARGUMENTS
#endif
#ifdef HOLE_FULL3
#define HOLE_FULL3_PARAMETERS HOLE_PASTE(ATTACCA_HOLE_FULL_PARAMETERS_, HOLE_FULL3)(3)
#define HOLE_FULL3_ARGUMENTS HOLE_PASTE(HOLE_FULL_ARGUMENTS_, HOLE_FULL3)(3)
#else
#define HOLE_FULL3_PARAMETERS
#define HOLE_FULL3_ARGUMENTS
#endif

#if HOLE_ROWS == 0
#define HOLE_ROW_PARAMETERS
#define HOLE_ROW_ARGUMENTS
#elif HOLE_ROWS == 1
#define HOLE_ROW_PARAMETERS ATTACCA_HOLE_ROW_PARAMETERS(0)
#define HOLE_ROW_ARGUMENTS row[0][0], row[0][1],
#else
#define HOLE_ROW_PARAMETERS ATTACCA_HOLE_ROW_PARAMETERS(0) ATTACCA_HOLE_ROW_PARAMETERS(1)
#define HOLE_ROW_ARGUMENTS row[0][0], row[0][1], row[1][0], row[1][1],
#endif

#if HOLE_COLUMNS == 0
#define HOLE_COLUMN_PARAMETERS
#define HOLE_COLUMN_ARGUMENTS
#elif HOLE_COLUMNS == 1
#define HOLE_COLUMN_PARAMETERS ATTACCA_HOLE_COLUMN_PARAMETERS(0)
#define HOLE_COLUMN_ARGUMENTS column[0],
#else
#define HOLE_COLUMN_PARAMETERS ATTACCA_HOLE_COLUMN_PARAMETERS(0) ATTACCA_HOLE_COLUMN_PARAMETERS(1)
#define HOLE_COLUMN_ARGUMENTS column[0], column[1],
#endif

#define HOLE_FULL_PARAMETERS \
  HOLE_FULL0_PARAMETERS HOLE_FULL1_PARAMETERS HOLE_FULL2_PARAMETERS HOLE_FULL3_PARAMETERS
#define HOLE_PARAMETERS                                                                           \
  ATTACCA_HOLE_PARAMETERS(HOLE_ACCUMULATOR_PARAMETERS, HOLE_FULL_PARAMETERS, HOLE_ROW_PARAMETERS, \
                          HOLE_COLUMN_PARAMETERS)

struct attacca_results {
  uint32_t word[kResultWords > 0 ? kResultWords : 1];
};

extern "C" __device__ attacca_results attacca_hole(HOLE_PARAMETERS);

// The arguments of one call. Only slots that the row has are read. A 16-bit full slot is one word,
// full[i][0].
struct HoleArguments {
  uint32_t acc[kAccumulators ? kAccumulators : 1][2];
  uint32_t full[kFulls ? kFulls : 1][2];
  uint32_t row[kRows ? kRows : 1][2];
  uint32_t column[kColumns ? kColumns : 1];
};

#include "common/call_hole.cuh"

#endif  // ATTACCA_DEVICE_CODE
