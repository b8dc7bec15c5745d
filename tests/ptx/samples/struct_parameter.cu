// A struct by value, a bool and a short, which travel in 32 bits and are read as 8 and 16.
struct Mixed {
  double d;
  float f;
  short s;
};
#ifdef KERNEL
extern "C" __device__ Mixed hole(Mixed m, unsigned short raw, bool flag);
extern "C" __global__ void kernel(Mixed* m, const unsigned short* raw) {
  int i = threadIdx.x;
  m[i] = hole(m[i], raw[i], i > 3);
}
#else
extern "C" __device__ Mixed hole(Mixed m, unsigned short raw, bool flag) {
  if (flag) return m;
  m.d += raw;
  m.f = expf(m.f);
  return m;
}
#endif
