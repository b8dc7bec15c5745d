// The kernels of WidenCodes.
#pragma once

namespace attacca::launch {

// CUDA C++ before both kernels. A thread widens eight neighbouring weights, which share a scale,
// and writes them at once: one by one, indices take three times as long as the memory.
inline constexpr const char* kWidenEightSource = R"cuda(
template <class T> struct Pairs {
  static __device__ unsigned of(float a, float b) {
    return (unsigned)T::store(a) | (unsigned)T::store(b) << 16;
  }
};
#if __CUDA_ARCH__ >= 800
template <> struct Pairs<BF16> {
  static __device__ unsigned of(float a, float b) {
    unsigned both;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(b), "f"(a));
    return both;
  }
};
template <> struct Pairs<F16> {
  static __device__ unsigned of(float a, float b) {
    unsigned both;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(b), "f"(a));
    return both;
  }
};
#endif

// REQUIRES: `to` is aligned to 16 bytes.
template <class T> __device__ void store_eight(typename T::Memory* to, const float* x) {
  uint4* const at = (uint4*)to;
  if constexpr (sizeof(typename T::Memory) == 2) {
    at[0] = uint4{Pairs<T>::of(x[0], x[1]), Pairs<T>::of(x[2], x[3]), Pairs<T>::of(x[4], x[5]),
                  Pairs<T>::of(x[6], x[7])};
  } else {
    for (int i = 0; i < 2; ++i)
      at[i] = uint4{__float_as_uint(x[4 * i]), __float_as_uint(x[4 * i + 1]),
                    __float_as_uint(x[4 * i + 2]), __float_as_uint(x[4 * i + 3])};
  }
}

__device__ bool is_aligned(const void* at, int bytes) {
  return (unsigned long long)at % bytes == 0;
}
)cuda";

// Two codes of 4 bits a byte, the first in its lower half, and a power of two for 32 of them.
inline constexpr const char* kWidenMxFp4Source = R"cuda(
__device__ float power_of(unsigned scale) {
  if (scale == 255u) return __uint_as_float(0x7fffffffu);
  return __uint_as_float(scale == 0u ? 0x00400000u : scale << 23);
}

// With the bits of size and exponent in their place a code is an f32 of 2^-126 of its value, which
// is subnormal where the value is 0.5.
__device__ float value_of(unsigned code) {
  return __uint_as_float((code & 7u) << 22 | (code & 8u) << 28) * 0x1p126f;
}

extern "C" __global__ void __launch_bounds__(256)
attacca_mxfp4(const u8* codes, const u8* scales, u16* to, s64 count) {
  const s64 thread = blockIdx.x * 256ll + threadIdx.x, threads = gridDim.x * 256ll;
  if (is_aligned(codes, 4) && is_aligned(to, 16)) {
    for (s64 at = 8 * thread; at < count; at += 8 * threads) {
      const unsigned eight = *(const unsigned*)(codes + at / 2);
      const float power = power_of(scales[at / 32]);
      float x[8];
      for (int i = 0; i < 8; ++i) x[i] = value_of(eight >> 4 * i) * power;
      store_eight<BF16>(to + at, x);
    }
    return;
  }
  for (s64 at = thread; at < count; at += threads)
    to[at] = BF16::store(value_of(codes[at / 2] >> at % 2 * 4) * power_of(scales[at / 32]));
}
)cuda";

// Integers. Text in front of it defines BITS, the bits of a code, SIGNED, whether codes are signed,
// BLOCK, how many weights share a scale, and SCALE and STORED, structs of dtypes.
inline constexpr const char* kDecodeSource = R"cuda(
// `code`: with any bits above its own.
__device__ float difference_of(unsigned code, float zero) {
  constexpr unsigned kMask = (1u << BITS) - 1, kFlip = SIGNED ? 1u << (BITS - 1) : 0;
  // Without a conversion, which is slow: as the last bits of 2^23.
  return __uint_as_float((code & kMask ^ kFlip) | 0x4b000000u) - (0x1p23f + kFlip + zero);
}

// `zeros`: null, or a zero point for each scale.
extern "C" __global__ void __launch_bounds__(256)
attacca_decode(const u8* codes, const SCALE::Memory* scales, const u8* zeros, STORED::Memory* to,
               s64 count, int zero) {
  const s64 thread = blockIdx.x * 256ll + threadIdx.x, threads = gridDim.x * 256ll;
  if (BLOCK % 8 == 0 && is_aligned(codes, BITS) && is_aligned(to, 16)) {
    for (s64 at = 8 * thread; at < count; at += 8 * threads) {
      unsigned words[BITS / 4];
      for (int i = 0; i < BITS / 4; ++i) words[i] = ((const unsigned*)(codes + at * BITS / 8))[i];
      const s64 own = at / BLOCK;
      const float by = (float)SCALE::load(scales[own]), less = zeros ? zeros[own] : zero;
      float x[8];
      for (int i = 0; i < 8; ++i)
        x[i] = difference_of(words[i * BITS / 32] >> i * BITS % 32, less) * by;
      store_eight<STORED>(to + at, x);
    }
    return;
  }
  for (s64 at = thread; at < count; at += threads) {
    const s64 own = at / BLOCK;
    const unsigned code = BITS == 8 ? codes[at] : codes[at / 2] >> at % 2 * 4;
    to[at] = STORED::store(difference_of(code, zeros ? zeros[own] : zero) *
                           (float)SCALE::load(scales[own]));
  }
}
)cuda";

}  // namespace attacca::launch
