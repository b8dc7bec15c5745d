// What real kernels do with addresses: cases that must be accepted beside similar ones that must
// not.
#include <cassert>
#include <cstdint>
#include <cstdio>
#include <cuda_bf16.h>
#include <cuda_pipeline.h>

__device__ __forceinline__ int thread_index() {
  return blockIdx.x * blockDim.x + threadIdx.x;
}

// ---- Eligible

extern "C" __global__ void asks_for_null(const float* x, float* out, float* other, int n) {
  const int i = thread_index();
  if (i >= n) return;
  if (out != nullptr) out[i] = x[i] * 2.0f;
  if (other != nullptr) other[i] = x[i];
}

extern "C" __global__ void asks_for_alignment(const float* x, float* out, int n) {
  const int i = 4 * thread_index();
  if (i >= n) return;
  if (reinterpret_cast<uintptr_t>(out + i) % 16 == 0) {
    *reinterpret_cast<float4*>(out + i) = make_float4(x[i], x[i + 1], x[i + 2], x[i + 3]);
  } else {
    for (int j = i; j < i + 4; ++j) out[j] = x[j];
  }
}

extern "C" __global__ void asserts(const float* x, float* out, int n) {
  const int i = thread_index();
  assert(n > 0);
  if (i < n) out[i] = x[i] + 1.0f;
}

extern "C" __global__ void prints(const float* x, float* out, int n) {
  const int i = thread_index();
  if (i >= n) return;
  if (n < i - 1000) printf("element %d is %f\n", i, x[i]);
  out[i] = x[i] + 1.0f;
}

__device__ float shared_scale = 3.0f;

extern "C" __global__ void named_variable(const float* x, float* out, int n) {
  const int i = thread_index();
  if (i < n) out[i] = x[i] * shared_scale;
}

// Bytes backwards from the end, as 64-bit arithmetic.
extern "C" __global__ void backwards(const float* x, float* out, long long n) {
  const long long i = thread_index();
  if (i >= n) return;
  char* end = reinterpret_cast<char*>(out + n);
  *reinterpret_cast<float*>(end - (i + 1) * static_cast<long long>(sizeof(float))) = x[i];
}

extern "C" __global__ void unrolled_rows(const float* x, float* out, int columns, int stride) {
  float* row = out + static_cast<size_t>(blockIdx.x) * stride;
  const float* from = x + static_cast<size_t>(blockIdx.x) * stride;
#pragma unroll 4
  for (int i = threadIdx.x; i < columns; i += blockDim.x) row[i] = from[i] * from[i];
}

extern "C" __global__ void early_exits(const float* x, float* out, int n) {
  for (int i = thread_index();; i += gridDim.x * blockDim.x) {
    if (i >= n) return;
    const float value = x[i];
    if (value < -1.0f) {
      out[i] = -1.0f;
      continue;
    }
    out[i] = value;
  }
}

__device__ __noinline__ void put_deep(float* to, float value) {
  *to = value * 0.5f;
}
__device__ __noinline__ void put_row(float* to, const float* from, int count) {
  for (int i = 0; i < count; ++i) put_deep(to + i, from[i]);
}

// The helpers also serve another output, which must not change.
extern "C" __global__ void shared_helpers(const float* x, float* out, float* other, int columns) {
  if (threadIdx.x != 0) return;
  put_row(out + blockIdx.x * columns, x + blockIdx.x * columns, columns);
  put_row(other + blockIdx.x * columns, x + blockIdx.x * columns, columns);
}

// The helper's variable keeps what the other output's call left in it.
__device__ __noinline__ void put_kept(float* to, float value, bool first) {
  static __shared__ float kept[32];
  kept[threadIdx.x] = first ? value : fmaxf(-kept[threadIdx.x], value);
  *to = kept[threadIdx.x];
}
extern "C" __global__ void shared_variable(const float* x, float* out, float* other, int n) {
  const int i = thread_index();
  if (i >= n) return;
  put_kept(other + i, x[i], true);
  put_kept(out + i, x[i], false);
}

// Sixteen bytes of bf16 from single registers.
extern "C" __global__ void packed_by_hand(const float* x, __nv_bfloat16* out, int n) {
  const int i = 8 * thread_index();
  if (i >= n) return;
  uint32_t words[4];
  for (int j = 0; j < 4; ++j) {
    const auto low = static_cast<uint32_t>(__bfloat16_as_ushort(__float2bfloat16(x[i + 2 * j])));
    const auto high =
        static_cast<uint32_t>(__bfloat16_as_ushort(__float2bfloat16(x[i + 2 * j + 1])));
    words[j] = low | high << 16;
  }
  *reinterpret_cast<uint4*>(&out[i]) = make_uint4(words[0], words[1], words[2], words[3]);
}

// ---- Refused

extern "C" __global__ void reads_by_ldg(const float* x, float* out, int n) {
  const int i = thread_index();
  if (i >= n) return;
  const float before = __ldg(&out[i]);
  out[i] = x[i] + before;
}

extern "C" __global__ void reads_by_async_copy(const float* x, float* out, int n) {
  __shared__ float4 staged[32];
  const int i = thread_index();
  __pipeline_memcpy_async(&staged[threadIdx.x], &reinterpret_cast<float4*>(out)[i], 16);
  __pipeline_commit();
  __pipeline_wait_prior(0);
  if (i < n / 4) reinterpret_cast<float4*>(out)[i] = staged[threadIdx.x];
}

extern "C" __global__ void reads_by_asm(const float* x, float* out, int n) {
  const int i = thread_index();
  if (i >= n) return;
  float before;
  asm volatile("ld.relaxed.gpu.global.f32 %0, [%1];" : "=f"(before) : "l"(out + i) : "memory");
  out[i] = x[i] - before;
}

extern "C" __global__ void branches_to_an_output(const float* x, float* out, float* other, int n) {
  const int i = thread_index();
  if (i >= n) return;
  float* to = other;
  if (x[i] > 0.0f) {
    asm volatile("" ::: "memory");
    to = out;
  }
  to[i] = x[i];
}

struct Outputs {
  float* pointer[4];
};

extern "C" __global__ void indexed_outputs(const float* x, Outputs outputs, int n, int which) {
  const int i = thread_index();
  if (i < n) outputs.pointer[which][i] = x[i];
}

extern "C" __global__ void kept_in_shared(const float* x, float* out, int n) {
  __shared__ float* kept;
  if (threadIdx.x == 0) kept = out;
  __syncthreads();
  const int i = thread_index();
  if (i < n) kept[i] = x[i];
}

extern "C" __global__ void printed(const float* x, float* out, int n) {
  const int i = thread_index();
  if (i == 0) printf("output at %p\n", out);
  if (i < n) out[i] = x[i];
}

// The inputs' addresses come from memory: one of them may be the output.
extern "C" __global__ void batched(const float* const* inputs, float* out, int n) {
  const int i = thread_index();
  if (i < n) out[blockIdx.y * n + i] = inputs[blockIdx.y][i];
}

extern "C" __global__ void shared_or_output(const float* x, float* out, int n, int which) {
  __shared__ float scratch[64];
  const int i = thread_index();
  float* to = which != 0 ? scratch : out;
  if (i < n) to[i] = x[i];
  __syncthreads();
  if (which != 0 && i < n) out[i] = scratch[i ^ 1];
}

extern "C" __global__ void discards(const float* x, float* out, int n) {
  const int i = thread_index();
  if (i == 0) asm volatile("discard.global.L2 [%0], 128;" ::"l"(out) : "memory");
  if (i < n) out[i] = x[i];
}

extern "C" __global__ void released(const float* x, float* out, int n) {
  const int i = thread_index();
  if (i < n)
    asm volatile("st.release.gpu.global.f32 [%0], %1;" ::"l"(out + i), "f"(x[i]) : "memory");
}

__device__ __noinline__ void recurse(float* to, const float* from, int n) {
  if (n == 0) return;
  *to = *from;
  recurse(to + 1, from + 1, n - 1);
  asm volatile("" ::: "memory");
}

extern "C" __global__ void recursive(const float* x, float* out, int n) {
  if (thread_index() == 0) recurse(out, x, n);
}

extern "C" __global__ void address_as_data(const float* x, unsigned long long* out, int n) {
  const int i = thread_index();
  if (i < n) out[i] = reinterpret_cast<unsigned long long>(out + i);
}

// ---- Parameters beside the one that is named

extern "C" __global__ void neighbouring_parameter(const float* x, float* out, int n) {
  const int i = thread_index();
  const float* before;
  asm("ld.param.u64 %0, [neighbouring_parameter_param_0+8];" : "=l"(before));
  if (i < n) out[i] = x[i] + before[i];
}

extern "C" __global__ void spanning_vector(const float* x, float* out, int n) {
  const int i = thread_index();
  const float *first, *second;
  asm("ld.param.v2.u64 {%0, %1}, [spanning_vector_param_0];" : "=l"(first), "=l"(second));
  if (i < n) out[i] = first[i] + second[i];
}

extern "C" __global__ void parameter_by_register(const float* x, float* out, int n) {
  const int i = thread_index();
  const float* before;
  asm("{ .reg .b64 at; mov.b64 at, parameter_by_register_param_0; ld.param.u64 %0, [at+8]; }"
      : "=l"(before));
  if (i < n) out[i] = x[i] + before[i];
}
