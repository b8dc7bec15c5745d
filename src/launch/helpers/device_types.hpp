// CUDA C++ with which helper kernels begin. It reads each dtype from memory as a number that holds
// it exactly (double, or s64 for integers), and writes it from one.
#pragma once

#include "ir/graph/dtype.hpp"
#include "support/error.hpp"

namespace attacca::launch {

// The struct of kDeviceTypes for a dtype, and the type of the numbers that it reads.
struct DeviceType {
  ir::DType dtype;
  const char* name;
  bool real;  // double; else s64
};
Result<DeviceType> device_type(ir::DType dtype);

inline constexpr const char* kDeviceTypes = R"cuda(
typedef unsigned char u8;
typedef unsigned short u16;
typedef long long s64;

struct F64 {
  typedef double Memory;
  static __device__ double load(double x) { return x; }
  static __device__ double store(double x) { return x; }
};
struct F32 {
  typedef float Memory;
  static __device__ double load(float x) { return x; }
  static __device__ float store(double x) { return (float)x; }
};
struct BF16 {
  typedef u16 Memory;
  static __device__ double load(u16 x) { return __uint_as_float((unsigned)x << 16); }
  static __device__ u16 store(double x) {
    const unsigned bits = __float_as_uint((float)x);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return 0x7fffu;
    return (u16)((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
  }
};
struct F16 {
  typedef u16 Memory;
  static __device__ double load(u16 x) {
    float r;
    asm("cvt.f32.f16 %0, %1;" : "=f"(r) : "h"(x));
    return r;
  }
  static __device__ u16 store(double x) {
    u16 r;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(r) : "f"((float)x));
    return r;
  }
};
// An 8-bit float is a 16-bit one with fewer bits: e5m2 its upper half, e4m3 scaled by 2^8.
struct F8E5M2 {
  typedef u8 Memory;
  static __device__ double load(u8 x) { return F16::load((u16)(x << 8)); }
};
struct F8E4M3 {
  typedef u8 Memory;
  static __device__ double load(u8 x) {
    if ((x & 0x7f) == 0x7f) return F16::load(0x7e00);
    return 256.0 * F16::load((u16)(((x & 0x80) << 8) | ((x & 0x7f) << 7)));
  }
};
template <class T> struct Integer {
  typedef T Memory;
  static __device__ s64 load(T x) { return x; }
  static __device__ T store(s64 x) { return (T)x; }
};
typedef Integer<signed char> S8;
typedef Integer<u8> U8;
typedef Integer<u8> Bool;
typedef Integer<int> S32;
typedef Integer<s64> S64;
)cuda";

}  // namespace attacca::launch
