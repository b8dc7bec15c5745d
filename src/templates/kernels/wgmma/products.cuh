// wgmma in every width in use: 64 rows of A by N rows of B, 32 bytes of k each, from shared memory.
// templates/instantiate.cpp replaces the types in the PTX for the family's other elements. The
// emulator of tests/templates has its own version of this file.
#pragma once

#include "wgmma/config.cuh"

#ifdef ATTACCA_DEVICE_CODE

namespace attacca_wgmma {

// For each element: the shape and types in the instruction's name; the immediate operands after the
// descriptors, which negate neither side and say whether it is transposed (PTX ISA: transposing is
// for 16-bit elements only); the constraint of the accumulators.
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

// The accumulators as operands and their names in the text: the first 4, 8, 16, ... of them.
#define REGISTERS_4(i)                                                          \
  WGMMA_REGISTER(d[i]), WGMMA_REGISTER(d[(i) + 1]), WGMMA_REGISTER(d[(i) + 2]), \
      WGMMA_REGISTER(d[(i) + 3])
#define REGISTERS_8(i) REGISTERS_4(i), REGISTERS_4((i) + 4)
#define NAMES_4 "%0, %1, %2, %3"
#define FIRST_4 REGISTERS_4(0)
#define NAMES_8 "%0, %1, %2, %3, %4, %5, %6, %7"
#define FIRST_8 REGISTERS_8(0)
#define NAMES_16 NAMES_8 ", %8, %9, %10, %11, %12, %13, %14, %15"
#define FIRST_16 FIRST_8, REGISTERS_8(8)
#define NAMES_24 NAMES_16 ", %16, %17, %18, %19, %20, %21, %22, %23"
#define FIRST_24 FIRST_16, REGISTERS_8(16)
#define NAMES_32 NAMES_24 ", %24, %25, %26, %27, %28, %29, %30, %31"
#define FIRST_32 FIRST_24, REGISTERS_8(24)
#define NAMES_40 NAMES_32 ", %32, %33, %34, %35, %36, %37, %38, %39"
#define FIRST_40 FIRST_32, REGISTERS_8(32)
#define NAMES_48 NAMES_40 ", %40, %41, %42, %43, %44, %45, %46, %47"
#define FIRST_48 FIRST_40, REGISTERS_8(40)
#define NAMES_56 NAMES_48 ", %48, %49, %50, %51, %52, %53, %54, %55"
#define FIRST_56 FIRST_48, REGISTERS_8(48)
#define NAMES_64 NAMES_56 ", %56, %57, %58, %59, %60, %61, %62, %63"
#define FIRST_64 FIRST_56, REGISTERS_8(56)
#define NAMES_72 NAMES_64 ", %64, %65, %66, %67, %68, %69, %70, %71"
#define FIRST_72 FIRST_64, REGISTERS_8(64)
#define NAMES_80 NAMES_72 ", %72, %73, %74, %75, %76, %77, %78, %79"
#define FIRST_80 FIRST_72, REGISTERS_8(72)
#define NAMES_88 NAMES_80 ", %80, %81, %82, %83, %84, %85, %86, %87"
#define FIRST_88 FIRST_80, REGISTERS_8(80)
#define NAMES_96 NAMES_88 ", %88, %89, %90, %91, %92, %93, %94, %95"
#define FIRST_96 FIRST_88, REGISTERS_8(88)
#define NAMES_104 NAMES_96 ", %96, %97, %98, %99, %100, %101, %102, %103"
#define FIRST_104 FIRST_96, REGISTERS_8(96)
#define NAMES_112 NAMES_104 ", %104, %105, %106, %107, %108, %109, %110, %111"
#define FIRST_112 FIRST_104, REGISTERS_8(104)
#define NAMES_120 NAMES_112 ", %112, %113, %114, %115, %116, %117, %118, %119"
#define FIRST_120 FIRST_112, REGISTERS_8(112)
#define NAMES_128 NAMES_120 ", %120, %121, %122, %123, %124, %125, %126, %127"
#define FIRST_128 FIRST_120, REGISTERS_8(120)

// A, B, ADD, TA, TB: the operands' numbers in the text. A, B: the descriptors. ADD: 0 if the
// product replaces the sum. TA, TB: whether the rows of a side are values of k. The last arguments
// are the accumulators.
#define DEFINE_WGMMA(N, NAMES, A, B, ADD, TA, TB, ...)                                         \
  template <bool TRANSPOSED_A, bool TRANSPOSED_B>                                              \
  __device__ __forceinline__ void multiply(Sum(&d)[N / 2], uint64_t a, uint64_t b, bool add) { \
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, " ADD                                       \
                 ", 0;\n"                                                                      \
                 "wgmma.mma_async.sync.aligned.m64n" #N WGMMA_TYPES " {" NAMES "}, " A ", " B  \
                 ", p" WGMMA_SIDES(TA, TB) ";\n}"                                              \
                 : __VA_ARGS__                                                                 \
                 : "l"(a), "l"(b), "r"(add ? 1 : 0), "n"(TRANSPOSED_A ? 1 : 0),                \
                   "n"(TRANSPOSED_B ? 1 : 0));                                                 \
  }

DEFINE_WGMMA(8, NAMES_4, "%4", "%5", "%6", "%7", "%8", FIRST_4)
DEFINE_WGMMA(16, NAMES_8, "%8", "%9", "%10", "%11", "%12", FIRST_8)
DEFINE_WGMMA(32, NAMES_16, "%16", "%17", "%18", "%19", "%20", FIRST_16)
DEFINE_WGMMA(48, NAMES_24, "%24", "%25", "%26", "%27", "%28", FIRST_24)
DEFINE_WGMMA(64, NAMES_32, "%32", "%33", "%34", "%35", "%36", FIRST_32)
DEFINE_WGMMA(80, NAMES_40, "%40", "%41", "%42", "%43", "%44", FIRST_40)
DEFINE_WGMMA(96, NAMES_48, "%48", "%49", "%50", "%51", "%52", FIRST_48)
DEFINE_WGMMA(112, NAMES_56, "%56", "%57", "%58", "%59", "%60", FIRST_56)
DEFINE_WGMMA(128, NAMES_64, "%64", "%65", "%66", "%67", "%68", FIRST_64)
DEFINE_WGMMA(144, NAMES_72, "%72", "%73", "%74", "%75", "%76", FIRST_72)
DEFINE_WGMMA(160, NAMES_80, "%80", "%81", "%82", "%83", "%84", FIRST_80)
DEFINE_WGMMA(176, NAMES_88, "%88", "%89", "%90", "%91", "%92", FIRST_88)
DEFINE_WGMMA(192, NAMES_96, "%96", "%97", "%98", "%99", "%100", FIRST_96)
DEFINE_WGMMA(208, NAMES_104, "%104", "%105", "%106", "%107", "%108", FIRST_104)
DEFINE_WGMMA(224, NAMES_112, "%112", "%113", "%114", "%115", "%116", FIRST_112)
DEFINE_WGMMA(256, NAMES_128, "%128", "%129", "%130", "%131", "%132", FIRST_128)

}  // namespace attacca_wgmma

#endif  // ATTACCA_DEVICE_CODE
