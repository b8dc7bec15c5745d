// Widens codes to 16-bit numbers of A's type, four registers of a fragment at once. The result is
// exactly code - zero, divided by a power of two that rows_up() gives.
//
// bf16: the bits of a code of up to 8 bits, read as bf16, are code * 2^-133 (subnormal for codes
// below 128). One fma multiplies by 2^127 and subtracts the zero point. The upper nibble of a byte
// is used where it stands, 16 times as large.
//
// f16: a code in the low bits of 1024.0 gives 1024 + code, its upper nibble 1024 + 16 * code; one
// fma subtracts 1024 and the zero point. FasterTransformer's interleaved_numeric_conversion.h has
// this method.
//
// f8e4m3: exponent and fraction are moved to their places in A's type; one multiplication corrects
// the exponent's bias.
#pragma once

#include "common/bytes.cuh"
#include "packed/pair_instructions.cuh"

#ifdef ATTACCA_DEVICE_CODE

namespace attacca_packed_weights {

// The number in the lower half of a pair, and that in the upper half.
__device__ __forceinline__ float float_of_lower(uint32_t pair) {
  return kBf16 ? __uint_as_float(pair << 16) : float_of_half(pair & 0xffff);
}
__device__ __forceinline__ float float_of_upper(uint32_t pair) {
  return kBf16 ? __uint_as_float(pair & 0xffff0000) : float_of_half(pair >> 16);
}

// Values for rows lane / 4 and lane / 4 + 8 of a fragment.
struct Pair {
  uint32_t low, high;
};

// What the sums of a fragment's lower or upper (`high`) rows must be multiplied by.
__device__ __forceinline__ float rows_up(bool high) {
  if (!kBf16 || kCodeFloats) return 1;
  return kCodeBits == 4 && high && !kAsTheyLie ? 4.0f : 64.0f;
}

constexpr uint32_t both(uint32_t half) {
  return half | half << 16;
}

// What widen() adds, for two zero points.
__device__ __forceinline__ Pair negated_zeros(uint32_t low, uint32_t high) {
  constexpr int kUp = kCodeBits == 4 ? 4 : 0;
  if constexpr (kCodeFloats) {
    return {both(0x8000), both(0x8000)};
  } else if constexpr (kBf16) {
    constexpr uint32_t kBig = both(0xff00);  // -2^127
    return {multiply_add_pair(both(low), kBig, both(0x8000)),
            multiply_add_pair(both(high) << kUp, kBig, both(0x8000))};
  } else {
    // -(1024 + zero point); for the upper nibble of 4-bit codes -(64 + zero point).
    return {both(low) | both(0xe400), both(high) << kUp | both(kCodeBits == 4 ? 0xd400 : 0xe400)};
  }
}

// What widen_apart() and widen_chosen() add, for two zero points, one in each half.
__device__ __forceinline__ uint32_t negated_pair(uint32_t zeros) {
  if constexpr (kBf16)
    return multiply_add_pair(zeros, both(0xff00), both(0x8000));
  else
    return zeros | both(0xe400);
}

// Widens two unsigned codes, one in each half of a word.
__device__ __forceinline__ uint32_t widen_apart(uint32_t codes, uint32_t zeros) {
  if constexpr (kBf16)
    return multiply_add_pair(codes, both(0x7f00), zeros);
  else
    return multiply_add_pair(codes | both(0x6400), both(0x3c00), zeros);
}

// A pair times a scale, rounded. `by`: f32 bits, or a 16-bit number twice.
__device__ __forceinline__ uint32_t scaled(uint32_t pair, uint32_t by) {
  if constexpr (kScaleBits == 32) {
    const float factor = __uint_as_float(by);
    return pair_of_floats(float_of_lower(pair) * factor, float_of_upper(pair) * factor);
  } else {
    return multiply_add_pair(pair, by, both(0x8000));
  }
}

// Multiplies the nibbles of a word, read as bf16, and adds: rows lane / 4 by the lower factor, rows
// lane / 4 + 8 by the upper one.
__device__ __forceinline__ void multiply_nibbles(uint32_t word, const Pair& by, const Pair& plus,
                                                 uint32_t (&a)[4]) {
  const uint32_t upper = word >> 8;
  constexpr uint32_t kLow = both(0x000f), kHigh = both(0x00f0);
  a[0] = multiply_add_pair(word & kLow, by.low, plus.low);
  a[1] = multiply_add_pair(word & kHigh, by.high, plus.high);
  a[2] = multiply_add_pair(upper & kLow, by.low, plus.low);
  a[3] = multiply_add_pair(upper & kHigh, by.high, plus.high);
}

__device__ __forceinline__ void widen_nibbles(uint32_t word, const Pair& zeros, uint32_t (&a)[4]) {
  if constexpr (kBf16) {
    constexpr uint32_t kBig = both(0x7f00);  // 2^127
    multiply_nibbles(word, {kBig, kBig}, zeros, a);
  } else {
    const uint32_t upper = word >> 8;
    constexpr uint32_t kLow = both(0x000f), kHigh = both(0x00f0);
    constexpr uint32_t k1024 = both(0x6400), kOne = both(0x3c00), kSixteenth = both(0x2c00);
    a[0] = multiply_add_pair((word & kLow) | k1024, kOne, zeros.low);
    a[1] = multiply_add_pair((word & kHigh) | k1024, kSixteenth, zeros.high);
    a[2] = multiply_add_pair((upper & kLow) | k1024, kOne, zeros.low);
    a[3] = multiply_add_pair((upper & kHigh) | k1024, kSixteenth, zeros.high);
  }
}

// Widens two unsigned bytes of a word to a pair of 16-bit numbers. `which`: their numbers, as
// choose_bytes() takes them, each below a byte of its second word.
__device__ __forceinline__ uint32_t widen_chosen(uint32_t word, uint32_t which, uint32_t zeros) {
  if constexpr (kBf16)
    return multiply_add_pair(choose_bytes(word, 0, which), both(0x7f00), zeros);
  else
    return multiply_add_pair(choose_bytes(word, both(0x6464), which), both(0x3c00), zeros);
}

// Widens the lower or the upper two bytes of a word.
__device__ __forceinline__ uint32_t widen_bytes(uint32_t word, bool upper, uint32_t zeros) {
  if constexpr (kCodeFloats) {
    const uint32_t codes = choose_bytes(word, 0, upper ? 0x3424 : 0x1404);  // in upper bytes
    constexpr int kDown = kBf16 ? 4 : 1;
    const uint32_t halves = (codes >> kDown & both(0x7f00 >> kDown)) | (codes & both(0x8000));
    return multiply_add_pair(halves, both(kBf16 ? 0x7b80 : 0x5c00), zeros);  // 2^120, 2^8
  } else {
    return widen_chosen(word, upper ? 0x4342 : 0x4140, zeros);
  }
}

__device__ __forceinline__ void widen(const uint32_t* words, const Pair& zeros, uint32_t (&a)[4]) {
  if constexpr (kCodeBits == 4) {
    widen_nibbles(words[0], zeros, a);
  } else {
    a[0] = widen_bytes(words[0], false, zeros.low);
    a[1] = widen_bytes(words[0], true, zeros.high);
    a[2] = widen_bytes(words[1], false, zeros.low);
    a[3] = widen_bytes(words[1], true, zeros.high);
  }
}

}  // namespace attacca_packed_weights

#endif  // ATTACCA_DEVICE_CODE
