// wgmma with its A in registers, in every width in use. The emulator of tests/templates has its own
// version of this file.
#pragma once

#include "wgmma/products.cuh"

#ifdef ATTACCA_DEVICE_CODE

namespace attacca_wgmma {

// The shape and types, and the operands after B: add, negate neither side, transpose none.
#if SCALE_BITS == 8
#define WGMMA_FRAGMENT_TYPES "k32.s32.s8.s8"
#define WGMMA_AFTER_B ", 1;"
#elif A_BF16
#define WGMMA_FRAGMENT_TYPES "k16.f32.bf16.bf16"
#define WGMMA_AFTER_B ", 1, 1, 1, 0;"
#else
#define WGMMA_FRAGMENT_TYPES "k16.f32.f16.f16"
#define WGMMA_AFTER_B ", 1, 1, 1, 0;"
#endif

// d += a x b. The registers of A are those of mma.m16n8k16 or m16n8k32, for 16 rows a warp (PTX
// ISA).
#define DEFINE_WGMMA_FRAGMENTS(N, NAMES, A, B, ...)                                              \
  __device__ __forceinline__ void multiply(Sum(&d)[N / 2], const uint32_t(&a)[4], uint64_t b) {  \
    asm volatile("wgmma.mma_async.sync.aligned.m64n" #N WGMMA_FRAGMENT_TYPES " {" NAMES "}, {" A \
                 "}, " B WGMMA_AFTER_B:__VA_ARGS__                                               \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));                          \
  }

DEFINE_WGMMA_FRAGMENTS(8, NAMES_4, "%4, %5, %6, %7", "%8", FIRST_4)
DEFINE_WGMMA_FRAGMENTS(16, NAMES_8, "%8, %9, %10, %11", "%12", FIRST_8)
DEFINE_WGMMA_FRAGMENTS(32, NAMES_16, "%16, %17, %18, %19", "%20", FIRST_16)
DEFINE_WGMMA_FRAGMENTS(64, NAMES_32, "%32, %33, %34, %35", "%36", FIRST_32)
DEFINE_WGMMA_FRAGMENTS(128, NAMES_64, "%64, %65, %66, %67", "%68", FIRST_64)
DEFINE_WGMMA_FRAGMENTS(256, NAMES_128, "%128, %129, %130, %131", "%132", FIRST_128)

}  // namespace attacca_wgmma

#endif  // ATTACCA_DEVICE_CODE
