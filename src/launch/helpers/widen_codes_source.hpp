// The kernels of WidenCodes.
#pragma once

namespace attacca::launch {

// CUDA C++.
inline constexpr const char* kWidenMxFp4Source = R"cuda(
// Two codes of 4 bits a byte, the first in its lower half, and a power of two for 32 of them.
extern "C" __global__ void __launch_bounds__(256)
attacca_mxfp4(const u8* codes, const u8* scales, u16* to, s64 count) {
  for (s64 at = blockIdx.x * 256ll + threadIdx.x; at < count; at += gridDim.x * 256ll) {
    const unsigned code = codes[at / 2] >> (at % 2 * 4) & 15u, scale = scales[at / 32];
    const unsigned size = code & 7u, exponent = size >> 1;
    // Halves: 0 1 2 3 4 6 8 12.
    const unsigned halves = exponent == 0 ? size & 1u : (2u | (size & 1u)) << (exponent - 1);
    // 2^(scale - 128) as an f32, which is subnormal for the two smallest.
    const unsigned power = scale < 2u ? 0x00200000u << scale : (scale - 1u) << 23;
    const float value = (float)halves * __uint_as_float(power);
    to[at] = scale == 255u ? (u16)0x7fffu : BF16::store(code & 8u ? -value : value);
  }
}
)cuda";

// Integers. Text in front of it defines BITS, the bits of a code, SIGNED, whether codes are signed,
// and SCALE and STORED, structs of dtypes.
inline constexpr const char* kDecodeSource = R"cuda(
// `zeros`: null, or a zero point for each scale.
extern "C" __global__ void __launch_bounds__(256)
attacca_decode(const u8* codes, const SCALE::Memory* scales, const u8* zeros, STORED::Memory* to,
               s64 count, s64 block, int zero) {
  for (s64 at = blockIdx.x * 256ll + threadIdx.x; at < count; at += gridDim.x * 256ll) {
    int code = BITS == 8 ? codes[at] : codes[at / 2] >> (at % 2 * 4) & 15;
    if (SIGNED && code >= 1 << (BITS - 1)) code -= 1 << BITS;
    const s64 own = at / block;
    const float by = (float)SCALE::load(scales[own]);
    to[at] = STORED::store((float)(code - (zeros ? zeros[own] : zero)) * by);
  }
}
)cuda";

}  // namespace attacca::launch
