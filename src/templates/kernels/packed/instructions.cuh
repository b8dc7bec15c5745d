// The PTX instructions of the kernels for packed weights and few rows: many of the mma and wgmma
// kernels', and some more. The emulator of tests/templates has its own version of this file.
#pragma once

#include "common/device.cuh"
#include "common/prefetch.cuh"
#include "mma/instructions.cuh"
#include "packed/pair_instructions.cuh"
#include "wgmma/instructions.cuh"

#ifdef ATTACCA_DEVICE_CODE

namespace attacca_packed_weights {

using attacca_mma::commit_copies;
using attacca_mma::copy_async;
using attacca_mma::load_matrices;
using attacca_mma::shared_address;
using attacca_mma::wait_copies;
using attacca_wgmma::allow_next_kernel;
using attacca_wgmma::barrier_arrive;
using attacca_wgmma::barrier_expect;
using attacca_wgmma::barrier_init;
using attacca_wgmma::barrier_init_fence;
using attacca_wgmma::barrier_passed;
using attacca_wgmma::block_in_cluster;
using attacca_wgmma::cluster_sync;
using attacca_wgmma::copy_box;
using attacca_wgmma::elected;
using attacca_wgmma::wait_for_previous_kernel;

#if A_BF16
#define MIXED_TYPES "f32.bf16.bf16.f32"
#else
#define MIXED_TYPES "f32.f16.f16.f32"
#endif

// c = a x b, and c += a x b, of 16x16 by 16x8 elements.
__device__ __forceinline__ void multiply_first(float (&c)[4], const uint32_t (&a)[4], uint32_t b0,
                                               uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col." MIXED_TYPES
      " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %10, %10, %10};"
      : "=f"(c[0]), "=f"(c[1]), "=f"(c[2]), "=f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "f"(0.0f));
}
__device__ __forceinline__ void multiply_more(float (&c)[4], const uint32_t (&a)[4], uint32_t b0,
                                              uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col." MIXED_TYPES
      " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// Loads four floats from this address of shared memory in another block of the cluster.
__device__ __forceinline__ float4 load_from_block(uint32_t address, uint32_t block) {
  float4 four;
  asm volatile(
      "{\n.reg .b32 remote;\nmapa.shared::cluster.u32 remote, %4, %5;\n"
      "ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [remote];\n}"
      : "=f"(four.x), "=f"(four.y), "=f"(four.z), "=f"(four.w)
      : "r"(address), "r"(block)
      : "memory");
  return four;
}

}  // namespace attacca_packed_weights

#endif  // ATTACCA_DEVICE_CODE
