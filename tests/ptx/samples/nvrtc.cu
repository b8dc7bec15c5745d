// compiler: nvrtc
// What runs in production: a kernel from nvcc's sibling, an epilogue from NVRTC.
#ifdef KERNEL
extern "C" __device__ float hole(float acc, unsigned short residual);
extern "C" __global__ void kernel(float* a, const unsigned short* r) {
  a[threadIdx.x] = hole(a[threadIdx.x], r[threadIdx.x]);
}
#else
extern "C" __device__ float hole(float acc, unsigned short residual) {
  float r = __uint_as_float((unsigned)residual << 16);
  return 0.5f * acc * (1.0f + erff(acc * 0.70710678f)) + r;
}
#endif
