// The type of A and B, from the row's DEFINE ELEMENT. Each kernel serves a family of types, for
// which only the names of its matrix instructions differ (templates/instantiate.cpp):
//   ELEMENT_BF16  (default) bf16 and f16; f32 accumulators
//   ELEMENT_S8    s8 and u8, each factor its own; s32 accumulators
//   ELEMENT_E4M3  f8e4m3 and f8e5m2, each factor its own; f32 accumulators
#pragma once

#include <cstdint>

#include "common/device.cuh"

#define ELEMENT_BF16 1
#define ELEMENT_S8 2
#define ELEMENT_E4M3 3
#ifndef ELEMENT
#define ELEMENT ELEMENT_BF16
#endif

namespace attacca_element {

template <int BYTES>
struct Word {
  using Type = uint16_t;
};
template <>
struct Word<1> {
  using Type = uint8_t;
};
template <bool INTEGER>
struct Accumulator {
  using Type = float;
};
template <>
struct Accumulator<true> {
  using Type = int32_t;
};

}  // namespace attacca_element

constexpr int kElementBytes = ELEMENT == ELEMENT_BF16 ? 2 : 1;
using Element = attacca_element::Word<kElementBytes>::Type;  // its raw bits
using Sum = attacca_element::Accumulator<ELEMENT == ELEMENT_S8>::Type;
// Elements in 16 bytes, which are copied and loaded at once.
constexpr int kElementChunk = 16 / kElementBytes;
// The bytes of k of each row that one matrix instruction multiplies.
constexpr int kStepBytes = 32;

#ifdef ATTACCA_DEVICE_CODE

__device__ __forceinline__ uint32_t raw_bits(float x) {
  return __float_as_uint(x);
}
__device__ __forceinline__ uint32_t raw_bits(int32_t x) {
  return static_cast<uint32_t>(x);
}

#endif  // ATTACCA_DEVICE_CODE
