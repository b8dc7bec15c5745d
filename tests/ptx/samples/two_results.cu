// Two results come back as one struct.
struct Two {
  float first;
  unsigned short second;
};
#ifdef KERNEL
extern "C" __device__ Two hole(float acc, unsigned short raw);
extern "C" __global__ void kernel(const float* a, unsigned short* raw, float* out) {
  int i = threadIdx.x;
  Two two = hole(a[i], raw[i]);
  out[i] = two.first;
  raw[i] = two.second;
}
#else
extern "C" __device__ Two hole(float acc, unsigned short raw) {
  float value = __uint_as_float(unsigned(raw) << 16);
  Two two = {acc * value, (unsigned short)(__float_as_uint(acc) >> 16)};
  return two;
}
#endif
