// nvcc-flags: -lineinfo
// .loc lines stay in the kernel and leave the epilogue.
#ifdef KERNEL
extern "C" __device__ float hole(float acc);
extern "C" __global__ void __launch_bounds__(128, 2) kernel(float* a) {
  a[threadIdx.x] = hole(a[threadIdx.x]);
}
#else
__device__ __forceinline__ float square(float x) { return x * x; }
extern "C" __device__ float hole(float acc) {
  float once = square(acc);
  return square(once + acc);
}
#endif
