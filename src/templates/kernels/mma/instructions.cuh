// The PTX instructions of the mma kernels, as functions. The emulator of tests/templates has its
// own version of this file.
#pragma once

#include <cstdint>

#include "common/device.cuh"
#include "common/element.cuh"

#ifdef ATTACCA_DEVICE_CODE

namespace attacca_mma {

__device__ __forceinline__ uint32_t shared_address(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

// Copies `bytes` bytes, 0 to 16, and fills up to 16 with zeros. `from` must be a multiple of 16; it
// is not read if `bytes` is 0.
__device__ __forceinline__ void copy_async(uint32_t to, const void* from, int bytes) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes)
               : "memory");
}
__device__ __forceinline__ void commit_copies() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}
// Waits until at most PENDING of this thread's groups of copies are in flight.
template <int PENDING>
__device__ __forceinline__ void wait_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
}

// Loads four 8x8 matrices of 16-bit elements. Lane i gives the address of a row: i % 8 of matrix i
// / 8.
__device__ __forceinline__ void load_matrices(uint32_t (&to)[4], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(address)
               : "memory");
}
__device__ __forceinline__ void load_matrices_transposed(uint32_t (&to)[4], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(address)
               : "memory");
}

#if ELEMENT == ELEMENT_BF16
#define MMA_TYPES "k16.row.col.f32.bf16.bf16.f32"
#define MMA_REGISTER "+f"
#elif ELEMENT == ELEMENT_E4M3
#define MMA_TYPES "k32.row.col.f32.e4m3.e4m3.f32"
#define MMA_REGISTER "+f"
#else
#define MMA_TYPES "k32.row.col.s32.s8.s8.s32"
#define MMA_REGISTER "+r"
#endif

// c += a x b, for 16 rows, 8 columns and 32 bytes of k. templates/instantiate.cpp replaces the
// types in the PTX for the family's other elements.
__device__ __forceinline__ void multiply_add(Sum (&c)[4], const uint32_t (&a)[4],
                                             const uint32_t (&b)[2]) {
  asm("mma.sync.aligned.m16n8" MMA_TYPES
      " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : MMA_REGISTER(c[0]), MMA_REGISTER(c[1]), MMA_REGISTER(c[2]), MMA_REGISTER(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

}  // namespace attacca_mma

#endif  // ATTACCA_DEVICE_CODE
