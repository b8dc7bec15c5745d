// One wgmma of every width in use: 64 rows of A by N rows of B, 32 bytes of k each, from shared
// memory. instantiate() makes the other types of the element's family of it.
#pragma once

#include "wgmma/config.cuh"
#include "wgmma/instructions.cuh"

#ifdef ATTACCA_DEVICE_CODE

namespace attacca_wgmma {

// What wgmma calls a descriptor, of a tile of rows of 128 bytes in the 128-byte swizzle that starts at
// `address`: groups of 8 rows are 1024 bytes apart. A transposed operand's rows are values of k, 64
// columns each, and a box of them follows another.
template <bool TRANSPOSED>
__device__ __forceinline__ uint64_t tile_descriptor(uint32_t address) {
  constexpr uint64_t kSwizzle128 = uint64_t{1} << 62;
  constexpr uint64_t kGroupsApart = uint64_t{1024 >> 4} << 32;
  constexpr uint64_t kBoxesApart = uint64_t{TRANSPOSED ? kColumnBoxBytes >> 4 : 1} << 16;
  return kSwizzle128 | kGroupsApart | kBoxesApart | (address & 0x3ffff) >> 4;
}

#ifdef ATTACCA_EMULATE

template <bool TRANSPOSED_A, bool TRANSPOSED_B, int VALUES>
void multiply(Sum (&d)[VALUES], uint64_t a, uint64_t b, bool add) {
  multiply_group({ELEMENT, VALUES * 2, a, TRANSPOSED_A, b, TRANSPOSED_B, add}, d);
}

#else

// How the element's instructions are called, what they are told of the sides beside the descriptors
// (to negate none, and which are transposed: 16-bit ones alone can be), and their accumulators'
// registers.
#if ELEMENT == ELEMENT_BF16
#define WGMMA_TYPES "k16.f32.bf16.bf16"
#define WGMMA_SIDES(TA, TB) ", 1, 1, " TA ", " TB
#define WGMMA_REGISTER "+f"
#elif ELEMENT == ELEMENT_E4M3
#define WGMMA_TYPES "k32.f32.e4m3.e4m3"
#define WGMMA_SIDES(TA, TB) ", 1, 1"
#define WGMMA_REGISTER "+f"
#else
#define WGMMA_TYPES "k32.s32.s8.s8"
#define WGMMA_SIDES(TA, TB) ""
#define WGMMA_REGISTER "+r"
#endif


// Texts and operands of 8, 16, ... registers.
#define REGISTERS_4(i) \
  WGMMA_REGISTER(d[i]), WGMMA_REGISTER(d[(i) + 1]), WGMMA_REGISTER(d[(i) + 2]), \
      WGMMA_REGISTER(d[(i) + 3])
#define REGISTERS_8(i) REGISTERS_4(i), REGISTERS_4((i) + 4)
#define REGISTERS_16(i) REGISTERS_8(i), REGISTERS_8((i) + 8)
#define REGISTERS_32(i) REGISTERS_16(i), REGISTERS_16((i) + 16)
#define REGISTERS_64(i) REGISTERS_32(i), REGISTERS_32((i) + 32)
#define NAMES_0_16 "%0, %1, %2, %3, %4, %5, %6, %7, " \
  "%8, %9, %10, %11, %12, %13, %14, %15"
#define NAMES_16_32 "%16, %17, %18, %19, %20, %21, %22, %23, " \
  "%24, %25, %26, %27, %28, %29, %30, %31"
#define NAMES_32_48 "%32, %33, %34, %35, %36, %37, %38, %39, " \
  "%40, %41, %42, %43, %44, %45, %46, %47"
#define NAMES_48_64 "%48, %49, %50, %51, %52, %53, %54, %55, " \
  "%56, %57, %58, %59, %60, %61, %62, %63"
#define NAMES_64_80 "%64, %65, %66, %67, %68, %69, %70, %71, " \
  "%72, %73, %74, %75, %76, %77, %78, %79"
#define NAMES_80_96 "%80, %81, %82, %83, %84, %85, %86, %87, " \
  "%88, %89, %90, %91, %92, %93, %94, %95"
#define NAMES_96_112 "%96, %97, %98, %99, %100, %101, %102, %103, " \
  "%104, %105, %106, %107, %108, %109, %110, %111"
#define NAMES_112_128 "%112, %113, %114, %115, %116, %117, %118, %119, " \
  "%120, %121, %122, %123, %124, %125, %126, %127"
#define NAMES_0_4 "%0, %1, %2, %3"
#define NAMES_0_8 "%0, %1, %2, %3, %4, %5, %6, %7"
#define NAMES_0_32 NAMES_0_16 ", " NAMES_16_32
#define NAMES_32_64 NAMES_32_48 ", " NAMES_48_64
#define NAMES_0_64 NAMES_0_32 ", " NAMES_32_64
#define NAMES_64_128 NAMES_64_80 ", " NAMES_80_96 ", " NAMES_96_112 ", " NAMES_112_128

// A, B: the numbers of the descriptors among the operands; ADD: of a number that is 0 where the result is
// this product alone; TA, TB: of whether a side lies in rows of columns.
#define DEFINE_WGMMA(N, NAMES, A, B, ADD, TA, TB, ...)                                             \
  template <bool TRANSPOSED_A, bool TRANSPOSED_B>                                                  \
  __device__ __forceinline__ void multiply(Sum (&d)[N / 2], uint64_t a, uint64_t b, bool add) {    \
    asm volatile(                                                                                  \
        "{\n.reg .pred p;\nsetp.ne.b32 p, " ADD ", 0;\n"                                           \
        "wgmma.mma_async.sync.aligned.m64n" #N WGMMA_TYPES " {" NAMES "}, " A ", " B ", p"         \
        WGMMA_SIDES(TA, TB) ";\n}"                                                                 \
        : __VA_ARGS__                                                                              \
        : "l"(a), "l"(b), "r"(add ? 1 : 0), "n"(TRANSPOSED_A ? 1 : 0), "n"(TRANSPOSED_B ? 1 : 0)); \
  }

DEFINE_WGMMA(8, NAMES_0_4, "%4", "%5", "%6", "%7", "%8", REGISTERS_4(0))
DEFINE_WGMMA(16, NAMES_0_8, "%8", "%9", "%10", "%11", "%12", REGISTERS_8(0))
DEFINE_WGMMA(32, NAMES_0_16, "%16", "%17", "%18", "%19", "%20", REGISTERS_16(0))
DEFINE_WGMMA(64, NAMES_0_32, "%32", "%33", "%34", "%35", "%36", REGISTERS_32(0))
DEFINE_WGMMA(128, NAMES_0_64, "%64", "%65", "%66", "%67", "%68", REGISTERS_64(0))
DEFINE_WGMMA(192, NAMES_0_64 ", " NAMES_64_80 ", " NAMES_80_96, "%96", "%97", "%98", "%99", "%100", REGISTERS_64(0), REGISTERS_32(64))
DEFINE_WGMMA(224, NAMES_0_64 ", " NAMES_64_80 ", " NAMES_80_96 ", " NAMES_96_112, "%112", "%113", "%114", "%115", "%116", REGISTERS_64(0), REGISTERS_32(64), REGISTERS_16(96))
DEFINE_WGMMA(256, NAMES_0_64 ", " NAMES_64_128, "%128", "%129", "%130", "%131", "%132", REGISTERS_64(0), REGISTERS_64(64))

#endif  // ATTACCA_EMULATE

}  // namespace attacca_wgmma

#endif  // ATTACCA_DEVICE_CODE
