// Runs a CUDA kernel's source on the CPU, so that its indices, strides and pipeline are tested
// where there is no GPU: each thread is a fiber, a warp's instruction waits for all of its lanes, a
// barrier for all threads. Included first by kernels' sources that are compiled with
// ATTACCA_EMULATE.
//
// Asynchronous copies happen as late as the pipeline's waits allow, or at once; threads run in a
// random order between barriers. A kernel that forgets a wait or a barrier so fails in one of them.
#pragma once

#include <algorithm>
#include <bit>
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
inline uint32_t __umulhi(uint32_t a, uint32_t b) {
  return static_cast<uint32_t>(uint64_t{a} * b >> 32);
}
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

// The instructions of sm80/instructions.cuh.
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
void multiply_add(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]);

namespace attacca::emulator {

struct Launch {
  uint32_t grid[3] = {1, 1, 1};
  int threads = 0;
  int shared_bytes = 0;
  bool copies_at_once = false;
  uint32_t seed = 0;
};

// Runs `kernel(shared memory)` in every thread of every block.
void launch(const Launch& launch, const std::function<void(char*)>& kernel);

}  // namespace attacca::emulator
