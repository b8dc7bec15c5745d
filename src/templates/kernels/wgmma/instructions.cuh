// The machine instructions of the wgmma kernels, by name, but for the products (products.cuh). The
// emulator of tests/templates has its own. Addresses are of shared memory.
#pragma once

#include <cstdint>

#include "common/device.cuh"

#ifdef ATTACCA_DEVICE_CODE

namespace attacca_wgmma {

__device__ __forceinline__ uint32_t shared_address(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

__device__ __forceinline__ void barrier_init(uint32_t barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}
// Makes initialised barriers known to the cluster and to copies.
__device__ __forceinline__ void barrier_init_fence() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
// Arrives, and makes the phase wait for so many bytes of copies.
__device__ __forceinline__ void barrier_expect(uint32_t barrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
               : "memory");
}
// The cluster's address of an address in one of its blocks. Two addresses of a block differ by as
// much there.
__device__ __forceinline__ uint32_t cluster_address(uint32_t address, uint32_t block) {
  uint32_t of_cluster;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(of_cluster) : "r"(address), "r"(block));
  return of_cluster;
}
// Arrives at a barrier by its cluster's address. Of the default scope, as CUTLASS's: what precedes
// are reads by products that have ended, and `.release.cluster` would wait for all memory of the
// GPU.
__device__ __forceinline__ void barrier_arrive(uint32_t of_cluster) {
  asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(of_cluster) : "memory");
}
__device__ __forceinline__ void barrier_arrive(uint32_t barrier, uint32_t block) {
  barrier_arrive(cluster_address(barrier, block));
}
// Whether the phase of this parity is over; waits for it a while.
__device__ __forceinline__ bool barrier_passed(uint32_t barrier, uint32_t parity) {
  uint32_t passed;
  asm volatile(
      "{\n.reg .pred p;\n"
      "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
      "selp.b32 %0, 1, 0, p;\n}"
      : "=r"(passed)
      : "r"(barrier), "r"(parity)
      : "memory");
  return passed != 0;
}

// The same of a barrier that another block's stores complete.
__device__ __forceinline__ bool cluster_barrier_passed(uint32_t barrier, uint32_t parity) {
  uint32_t passed;
  asm volatile(
      "{\n.reg .pred p;\n"
      "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], %2;\n"
      "selp.b32 %0, 1, 0, p;\n}"
      : "=r"(passed)
      : "r"(barrier), "r"(parity)
      : "memory");
  return passed != 0;
}

// Stores four words to an address of another block of the cluster; its barrier counts them.
__device__ __forceinline__ void send_four(uint32_t to, uint32_t barrier, uint32_t block,
                                          const uint32_t (&four)[4]) {
  asm volatile(
      "{\n.reg .b32 to, barrier;\n"
      "mapa.shared::cluster.u32 to, %0, %2;\n"
      "mapa.shared::cluster.u32 barrier, %1, %2;\n"
      "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [to], {%3, %4, %5, %6}, "
      "[barrier];\n}" ::"r"(to),
      "r"(barrier), "r"(block), "r"(four[0]), "r"(four[1]), "r"(four[2]), "r"(four[3])
      : "memory");
}

__device__ __forceinline__ uint32_t block_in_cluster() {
  uint32_t rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}
// All threads of the cluster. Not `aligned`: one thread of the loading warp comes later than its
// others.
__device__ __forceinline__ void cluster_sync() {
  asm volatile("barrier.cluster.arrive.release;\nbarrier.cluster.wait.acquire;" ::: "memory");
}

// Copies a map's box of rows x 128 bytes, whose first is (k, row, batch), to shared memory, and
// the barrier counts them; in the blocks of the cluster that `mask` names, each to the same
// addresses.
__device__ __forceinline__ void copy_box(uint32_t to, const void* map, uint32_t barrier, int k,
                                         int row, int batch) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], "
      "[%1, {%3, %4, %5}], [%2];" ::"r"(to),
      "l"(map), "r"(barrier), "r"(k), "r"(row), "r"(batch)
      : "memory");
}
__device__ __forceinline__ void copy_box_to_cluster(uint32_t to, const void* map, uint32_t barrier,
                                                    int k, int row, int batch, uint16_t mask) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
      ".multicast::cluster [%0], [%1, {%3, %4, %5}], [%2], %6;" ::"r"(to),
      "l"(map), "r"(barrier), "r"(k), "r"(row), "r"(batch), "h"(mask)
      : "memory");
}

// Copies bytes, a multiple of 16 as the addresses are, to shared memory; the barrier counts them.
__device__ __forceinline__ void copy_bytes(uint32_t to, const void* from, int bytes,
                                           uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(to),
      "l"(from), "r"(bytes), "r"(barrier)
      : "memory");
}

// What this thread wrote to shared memory is seen by the copies out of it that follow.
__device__ __forceinline__ void writes_before_copies() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
// Copies a box from shared memory to a map's place; commits this thread's copies so far; waits
// until at most PENDING commits have not been read.
__device__ __forceinline__ void copy_result(const void* map, uint32_t from, int column, int row,
                                            int batch) {
  asm volatile(
      "cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group [%0, {%2, %3, %4}], [%1];" ::"l"(
          map),
      "r"(from), "r"(column), "r"(row), "r"(batch)
      : "memory");
}
__device__ __forceinline__ void results_commit() {
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}
template <int PENDING>
__device__ __forceinline__ void results_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(PENDING) : "memory");
}

// The value of the warp's first lane. REQUIRES: all lanes have the same, which the compiler then
// knows.
__device__ __forceinline__ int warp_uniform(int value) {
  return __shfl_sync(0xffffffff, value, 0);
}

// Whether this is the lane that acts for its warp, the same one at every call by all lanes. ptxas
// then knows that there is only one: where a lane's number decides, it makes a loop over lanes of
// each bulk copy.
__device__ __forceinline__ bool elected() {
  uint32_t yes;
  asm volatile(
      "{\n.reg .pred p;\n"
      "elect.sync _|p, 0xffffffff;\n"
      "selp.b32 %0, 1, 0, p;\n}"
      : "=r"(yes));
  return yes != 0;
}

// The value of the lane whose number differs by these bits.
__device__ __forceinline__ uint32_t exchange_lanes(uint32_t value, int bits) {
  return __shfl_xor_sync(0xffffffff, value, bits);
}

template <int REGISTERS>
__device__ __forceinline__ void release_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(REGISTERS));
}
template <int REGISTERS>
__device__ __forceinline__ void claim_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(REGISTERS));
}

// Until the kernels before this one in the stream have written all; and: the next one may be
// launched.
__device__ __forceinline__ void wait_for_previous_kernel() {
  asm volatile("griddepcontrol.wait;" ::: "memory");
}
__device__ __forceinline__ void allow_next_kernel() {
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}

// Before the first product of a stage, after it, and until at most PENDING stages are under way.
__device__ __forceinline__ void products_begin() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ __forceinline__ void products_commit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
template <int PENDING>
__device__ __forceinline__ void products_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(PENDING) : "memory");
}
// Keeps the compiler from moving what reads an accumulator across.
__device__ __forceinline__ void pin(float& value) {
  asm volatile("" : "+f"(value)::"memory");
}
__device__ __forceinline__ void pin(int32_t& value) {
  asm volatile("" : "+r"(value)::"memory");
}
__device__ __forceinline__ void pin(uint32_t& value) {
  asm volatile("" : "+r"(value)::"memory");
}

}  // namespace attacca_wgmma

#endif
