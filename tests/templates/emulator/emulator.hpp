// Runs a CUDA kernel's source on the CPU, so that its indices, strides and pipeline are tested
// where there is no GPU: each thread is a fiber, a warp's instruction waits for all of its lanes, a
// barrier for all threads. Included first by kernels' sources that are compiled with
// ATTACCA_EMULATE.
//
// Asynchronous copies and products happen as late as the pipeline's waits allow, at random times,
// or at once; threads run in a random order between barriers. A kernel that lacks a wait or a
// barrier therefore fails in one of these orders, and one that waits forever ends with a message.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>

#define __device__
#define __forceinline__ inline

struct uint2 {
  uint32_t x, y;
};
struct uint4 {
  uint32_t x, y, z, w;
};
struct float2 {
  float x, y;
};
struct float4 {
  float x, y, z, w;
};
struct dim3 {
  uint32_t x = 1, y = 1, z = 1;
};
inline uint2 make_uint2(uint32_t x, uint32_t y) {
  return {x, y};
}
inline uint4 make_uint4(uint32_t x, uint32_t y, uint32_t z, uint32_t w) {
  return {x, y, z, w};
}
inline float2 make_float2(float x, float y) {
  return {x, y};
}
inline uint32_t __float_as_uint(float x) {
  return std::bit_cast<uint32_t>(x);
}
inline float __uint_as_float(uint32_t x) {
  return std::bit_cast<float>(x);
}
inline uint32_t __umulhi(uint32_t a, uint32_t b) {
  return static_cast<uint32_t>(uint64_t{a} * b >> 32);
}
using std::fmaf;
using std::max;
using std::min;

// Aborts on an address that the type's alignment forbids, as the device does.
void check_aligned(const void* pointer, size_t bytes);
template <class T>
T __ldg(const T* pointer) {
  check_aligned(pointer, sizeof(T));
  return *pointer;
}

extern dim3 threadIdx, blockIdx, gridDim;
void __syncthreads();
void __syncwarp();

// The instructions of mma/instructions.cuh.
uint32_t shared_address(const void* pointer);
void copy_async(uint32_t to, const void* from, int bytes);
void commit_copies();
void wait_copies(int pending);
template <int PENDING>
void wait_copies() {
  wait_copies(PENDING);
}
void load_matrices(uint32_t (&to)[4], uint32_t address);
void load_matrices_transposed(uint32_t (&to)[4], uint32_t address);
// Of `element`, as common/element.cuh numbers them; `c`: of four.
void multiply_fragments(int element, void* c, const uint32_t (&a)[4], const uint32_t (&b)[2]);

// Those of packed/instructions.cuh and packed/pair_instructions.cuh: halves are bf16 or f16.
void multiply_halves(bool bf16, float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]);
uint32_t multiply_add_pair(bool bf16, uint32_t a, uint32_t b, uint32_t c);
uint32_t pair_of_floats(bool bf16, float low, float high);
float float_of_half(uint32_t bits);
uint32_t choose_bytes(uint32_t a, uint32_t b, uint32_t which);
float4 load_from_block(uint32_t address, uint32_t block);

// Those of wgmma/instructions.cuh. An address of shared memory is one of the thread's own block.
void barrier_init(uint32_t barrier, int arrivals);
inline void barrier_init_fence() {}
void barrier_expect(uint32_t barrier, int bytes);
inline uint32_t cluster_address(uint32_t address, uint32_t block) {
  return block << 24 | address;
}
void barrier_arrive(uint32_t of_cluster);
inline void barrier_arrive(uint32_t barrier, uint32_t block) {
  barrier_arrive(cluster_address(barrier, block));
}
void barrier_arrive_here(uint32_t barrier);
bool barrier_passed(uint32_t barrier, uint32_t parity);
inline bool cluster_barrier_passed(uint32_t barrier, uint32_t parity) {
  return barrier_passed(barrier, parity);
}
void send_four(uint32_t to, uint32_t barrier, uint32_t block, const uint32_t (&four)[4]);
uint32_t block_in_cluster();
void cluster_sync();
void copy_box(uint32_t to, const void* map, uint32_t barrier, int k, int row, int batch);
void copy_box_to_cluster(uint32_t to, const void* map, uint32_t barrier, int k, int row, int batch,
                         uint16_t mask);
void copy_bytes(uint32_t to, const void* from, int bytes, uint32_t barrier);
void copy_word(uint32_t to, const void* from, bool valid);
void arrive_after_words(uint32_t barrier);
inline int warp_uniform(int value) {
  return value;
}
uint32_t exchange_lanes(uint32_t value, int bits);
// Of grouped/lanes.cuh and grouped/instructions.cuh.
int lane_before(int value, int distance);
int last_lane(int value);
void wait_all_copies();
void arrive_after_copies(uint32_t barrier);
bool elected();
inline void writes_before_copies() {}
inline void writes_before_products() {}
void copy_result(const void* map, uint32_t from, int column, int row, int batch);
void results_commit();
void results_read(int pending);
template <int PENDING>
void results_read() {
  results_read(PENDING);
}
template <int REGISTERS>
void release_registers() {}
template <int REGISTERS>
void claim_registers() {}
inline void wait_for_previous_kernel() {}
inline void allow_next_kernel() {}
inline void products_begin() {}
void products_commit();
void products_wait(int pending);
template <int PENDING>
void products_wait() {
  products_wait(PENDING);
}
inline void pin(float&) {}
inline void pin(int32_t&) {}
inline void pin(uint32_t&) {}
inline void pin(int64_t&) {}
inline void pin(const uint8_t*&) {}
// 64 rows by n by 32 bytes of k, of this warpgroup.
struct GroupProduct {
  int element;
  int n;
  uint64_t a;
  bool transposed_a;
  uint64_t b;
  bool transposed_b;
  bool add;  // false: what was there does not count
};
// `d`: of the thread.
void multiply_group(const GroupProduct& product, void* d);

// The same of halves, whose rows are the thread's fragments `a`: they are read when the product
// happens.
void multiply_group_fragments(bool bf16, int n, const uint32_t (&a)[4], uint64_t b, void* d);
// The same of s8.
void multiply_group_bytes(int n, const uint32_t (&a)[4], uint64_t b, void* d);

// As common/maximum.cuh merges a warp's.
inline void merge_maximum(uint32_t* to, uint32_t value) {
  *to = std::max(*to, value);
}

namespace attacca::emulator {

// cuTensorMapEncodeTiled for these copies.
int encode_map(void* map, int type, uint32_t rank, const void* address, const uint64_t* extents,
               const uint64_t* strides, const uint32_t* box, const uint32_t* element_strides,
               int interleave, int swizzle, int promotion, int fill);

struct Launch {
  uint32_t grid[3] = {1, 1, 1};
  int threads = 0;
  int shared_bytes = 0;
  int cluster = 1;  // blocks, along x
  bool copies_at_once = false;
  bool slow_warp = false;  // one of each block falls behind the others
  uint32_t seed = 0;
};

// Runs `kernel(shared memory)` in every thread of every block.
void launch(const Launch& launch, const std::function<void(char*)>& kernel);

}  // namespace attacca::emulator
