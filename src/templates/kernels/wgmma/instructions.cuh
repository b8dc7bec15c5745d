// The PTX instructions of the wgmma kernels, as functions, except wgmma itself (products.cuh). The
// emulator of tests/templates has its own version of this file. Addresses are of shared memory.
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
// Makes initialised barriers visible to the cluster and to asynchronous copies.
__device__ __forceinline__ void barrier_init_fence() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
// Arrives at a barrier, and makes its phase wait for `bytes` bytes of copies too.
__device__ __forceinline__ void barrier_expect(uint32_t barrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
               : "memory");
}
// The address, in the cluster, of an address of this block's in another block. Addresses of one
// block keep their distances.
__device__ __forceinline__ uint32_t cluster_address(uint32_t address, uint32_t block) {
  uint32_t of_cluster;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(of_cluster) : "r"(address), "r"(block));
  return of_cluster;
}
// Arrives at a barrier, given by its address in the cluster. The scope is the default one, as in
// CUTLASS's ClusterBarrier: what comes before are reads by products that have ended, and
// `.release.cluster` would wait for all earlier memory operations too.
__device__ __forceinline__ void barrier_arrive(uint32_t of_cluster) {
  asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(of_cluster) : "memory");
}
__device__ __forceinline__ void barrier_arrive(uint32_t barrier, uint32_t block) {
  barrier_arrive(cluster_address(barrier, block));
}
// Arrives at a barrier of this block's.
__device__ __forceinline__ void barrier_arrive_here(uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
// Whether the phase of this parity is complete; waits for a limited time if it is not.
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

// barrier_passed() for a barrier that stores of another block complete.
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

// Stores four words to an address in another block of the cluster, whose barrier counts the bytes.
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
// Synchronises all threads of the cluster. Not `.aligned`, because one thread of the loading warp
// arrives later than the others.
__device__ __forceinline__ void cluster_sync() {
  asm volatile("barrier.cluster.arrive.release;\nbarrier.cluster.wait.acquire;" ::: "memory");
}

// Copies a map's box of rows x 128 bytes, which begins at (k, row, batch), to shared memory; the
// barrier counts the bytes. copy_box_to_cluster() does so in each block of the cluster that `mask`
// names, at the same addresses.
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

// Copies bytes to shared memory; the barrier counts them. `bytes` and the addresses are multiples
// of 16.
__device__ __forceinline__ void copy_bytes(uint32_t to, const void* from, int bytes,
                                           uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(to),
      "l"(from), "r"(bytes), "r"(barrier)
      : "memory");
}

// Copies a word to shared memory, or zero if it is not `valid`. arrive_after_words() arrives at a
// barrier once this thread's words have arrived; the barrier counts it as an arrival.
__device__ __forceinline__ void copy_word(uint32_t to, const void* from, bool valid) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(to), "l"(from),
               "r"(valid ? 4 : 0)
               : "memory");
}
__device__ __forceinline__ void arrive_after_words(uint32_t barrier) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(barrier) : "memory");
}

// Makes this thread's writes to shared memory visible to the copies that it issues afterwards.
__device__ __forceinline__ void writes_before_copies() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
// Makes what other threads wrote to shared memory before a barrier that this thread has waited for
// visible to the products that it issues afterwards.
__device__ __forceinline__ void writes_before_products() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
// copy_result() copies a box from shared memory to a map's matrix. results_commit() makes a group
// of this thread's copies so far. results_read() waits until at most PENDING groups still have to
// be read from shared memory.
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

// Lane 0's value. REQUIRES: all lanes have the same value; the compiler then knows that they do.
__device__ __forceinline__ int warp_uniform(int value) {
  return __shfl_sync(0xffffffff, value, 0);
}

// Whether this lane is the elected one of its warp, the same at every call. REQUIRES: all lanes
// call it. ptxas then knows that only one lane goes on; after a comparison of the lane's number it
// makes each bulk copy a loop over lanes.
__device__ __forceinline__ bool elected() {
  uint32_t yes;
  asm volatile(
      "{\n.reg .pred p;\n"
      "elect.sync _|p, 0xffffffff;\n"
      "selp.b32 %0, 1, 0, p;\n}"
      : "=r"(yes));
  return yes != 0;
}

// The value of the lane whose number differs from this one's in these bits.
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

// Programmatic dependent launch: waits until the previous kernels in the stream have ended and
// their writes are visible; allows the next kernel to be launched.
__device__ __forceinline__ void wait_for_previous_kernel() {
  asm volatile("griddepcontrol.wait;" ::: "memory");
}
__device__ __forceinline__ void allow_next_kernel() {
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}

// products_begin() comes before the first product of a stage, products_commit() after the last.
// products_wait() waits until the products of at most PENDING stages are in flight.
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
// Keeps the compiler from moving reads of an accumulator across this point.
__device__ __forceinline__ void pin(float& value) {
  asm volatile("" : "+f"(value)::"memory");
}
__device__ __forceinline__ void pin(int32_t& value) {
  asm volatile("" : "+r"(value)::"memory");
}
__device__ __forceinline__ void pin(uint32_t& value) {
  asm volatile("" : "+r"(value)::"memory");
}
// Keeps the compiler from computing the value again where it is used.
__device__ __forceinline__ void pin(int64_t& value) {
  asm volatile("" : "+l"(value));
}
__device__ __forceinline__ void pin(const uint8_t*& value) {
  asm volatile("" : "+l"(value));
}

}  // namespace attacca_wgmma

#endif
