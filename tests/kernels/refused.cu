// Kernels that a tail must not join, each for one reason, on the line that the reason names.
#include <cstdint>
#include <cstring>
#include <cuda/atomic>
#include <cuda_bf16.h>
#include <mma.h>

__device__ __forceinline__ int thread_index() {
  return blockIdx.x * blockDim.x + threadIdx.x;
}

extern "C" __global__ void accumulate(const float* x, float* out, int n) {
  const int i = thread_index();
  if (i < n) out[i] += x[i];
}

extern "C" __global__ void read_through_alias(const float* x, float* out, int n) {
  const int i = thread_index();
  if (i >= n) return;
  out[i] = x[i];
  const float* alias = out + (i ^ 1);
  __syncwarp();
  out[n + i] = *alias * 2.0f;
}

extern "C" __global__ void atomic_add(const float* x, float* out, int n) {
  const int i = thread_index();
  if (i < n) atomicAdd(&out[i / 4], x[i]);
}

extern "C" __global__ void reduction_asm(const float* x, float* out, int n) {
  const int i = thread_index();
  if (i < n) asm volatile("red.global.add.f32 [%0], %1;" ::"l"(out + i / 4), "f"(x[i]) : "memory");
}

extern "C" __global__ void compare_and_swap(const float* x, float* out, int n) {
  const int i = thread_index();
  if (i >= n) return;
  unsigned* const to = reinterpret_cast<unsigned*>(&out[i / 4]);
  unsigned seen = 0, wanted;
  do {
    wanted = seen;
    seen = atomicCAS(to, wanted, __float_as_uint(fmaxf(__uint_as_float(wanted), x[i])));
  } while (seen != wanted);
}

extern "C" __global__ void atomic_reference(const int* x, int* out, int n) {
  const int i = thread_index();
  if (i >= n) return;
  cuda::atomic_ref<int, cuda::thread_scope_device> to(out[i / 4]);
  to.fetch_add(x[i], cuda::memory_order_relaxed);
}

extern "C" __global__ void stored_pointer(const float* x, float* out, float** pointers, int n) {
  const int i = thread_index();
  if (i >= n) return;
  pointers[i] = out + i;
  out[i] = x[i];
}

extern "C" __global__ void selected_outputs(const float* x, float* out, float* other, int n) {
  const int i = thread_index();
  if (i >= n) return;
  float* const to = x[i] > 0.0f ? out : other;
  to[i] = x[i];
}

// Only where `start` points to memory of `other` is the difference a number.
extern "C" __global__ void by_difference(const float* x, float* out, const float* start,
                                         float* other, int n) {
  const int i = thread_index();
  if (i >= n) return;
  out[i] = x[i];
  const long long at = out + i - start;
  other[at] = x[i];
}

__device__ void put_plain(float* to, float value) {
  *to = value;
}
__device__ void put_twice(float* to, float value) {
  *to = value * 2.0f;
}
__device__ void (*put_functions[2])(float*, float) = {put_plain, put_twice};

extern "C" __global__ void function_pointer(const float* x, float* out, int n, int which) {
  const int i = thread_index();
  if (i < n) put_functions[which](&out[i], x[i]);
}

__device__ float* remembered;

extern "C" __global__ void pointer_in_variable(const float* x, float* out, int n) {
  const int i = thread_index();
  if (i >= n) return;
  out[i] = x[i];
  __syncwarp();
  remembered[i] = remembered[i ^ 1];
}

extern "C" __global__ void shuffled_pointer(const float* x, float* out, int n) {
  const int i = thread_index();
  const auto address = reinterpret_cast<unsigned long long>(out + i);
  const auto other = __shfl_xor_sync(0xffffffffu, address, 1);
  if (i < n) *reinterpret_cast<float*>(other) = x[i];
}

// The value of the exclusive-or's other operand is unknown here.
extern "C" __global__ void integer_games(const float* x, float* out, int n, uintptr_t key,
                                         uintptr_t same_key) {
  const int i = thread_index();
  if (i >= n) return;
  const auto address = reinterpret_cast<uintptr_t>(out) ^ key;
  reinterpret_cast<float*>(address ^ same_key)[i] = x[i];
}

extern "C" __global__ void volatile_read(const float* x, float* out, int n) {
  const int i = thread_index();
  if (i >= n) return;
  out[i] = x[i];
  if (*static_cast<volatile float*>(&out[i]) < 0.0f) out[i] = 0.0f;
}

extern "C" __global__ void bulk_store(const float* x, float* out) {
  __shared__ alignas(128) float tile[32];
  tile[threadIdx.x] = x[blockIdx.x * 32 + threadIdx.x];
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  if (threadIdx.x == 0) {
    const auto from = static_cast<uint32_t>(__cvta_generic_to_shared(tile));
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], 128;" ::"l"(
                     __cvta_generic_to_global(out + blockIdx.x * 32)),
                 "r"(from)
                 : "memory");
    asm volatile("cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;" ::: "memory");
  }
}

// The output is a tensor map: no store's address is the buffer.
struct alignas(64) TensorMap {
  unsigned char bytes[128];
};

extern "C" __global__ void tma_store(const float* x, const __grid_constant__ TensorMap out) {
  __shared__ alignas(128) float tile[8 * 32];
  tile[threadIdx.x] = x[threadIdx.x];
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  if (threadIdx.x == 0) {
    const auto from = static_cast<uint32_t>(__cvta_generic_to_shared(tile));
    asm volatile(
        "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];" ::"l"(&out),
        "r"(0), "r"(0), "r"(from)
        : "memory");
    asm volatile("cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;" ::: "memory");
  }
}

extern "C" __global__ void byte_copy(const float* x, float* out, int n) {
  const int i = thread_index();
  if (i >= n) return;
  const float value = x[i] + 1.0f;
  const unsigned char* from = reinterpret_cast<const unsigned char*>(&value);
  unsigned char* to = reinterpret_cast<unsigned char*>(out + i);
#pragma unroll 1
  for (int j = 0; j < 4; ++j) to[j] = from[j];
}

extern "C" __global__ void wmma_store(const __nv_bfloat16* a, const __nv_bfloat16* b, float* out) {
  using namespace nvcuda;
  wmma::fragment<wmma::matrix_a, 16, 16, 16, __nv_bfloat16, wmma::row_major> fa;
  wmma::fragment<wmma::matrix_b, 16, 16, 16, __nv_bfloat16, wmma::row_major> fb;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;
  wmma::fill_fragment(sum, 0.0f);
  wmma::load_matrix_sync(fa, a, 16);
  wmma::load_matrix_sync(fb, b, 16);
  wmma::mma_sync(sum, fa, fb, sum);
  wmma::store_matrix_sync(out, sum, 16, wmma::mem_row_major);
}

__device__ __noinline__ float last_and_store(float* to, int i, float value) {
  const float last = to[i];
  to[i] = value;
  return last;
}

extern "C" __global__ void noinline_reads(const float* x, float* out, float* before, int n) {
  const int i = thread_index();
  if (i < n) before[i] = last_and_store(out, i, x[i]);
}

// A member function from a table; which one is unknown.
struct Sink {
  __device__ virtual void put(float* to, float value) const = 0;
};

extern "C" __global__ void virtual_call(const float* x, float* out, const Sink* sink, int n) {
  const int i = thread_index();
  if (i < n) sink->put(&out[i], x[i]);
}

// Half an element a store.
extern "C" __global__ void halves_of_elements(const float* x, uint16_t* out, int n) {
  const int i = thread_index();
  if (i >= n) return;
  const unsigned bits = __float_as_uint(x[i]);
  out[2 * i + 1] = static_cast<uint16_t>(bits >> 16);
}
