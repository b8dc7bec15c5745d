// sinf's slow path has a table of constants and a local array.
#ifdef KERNEL
extern "C" __device__ float hole(float acc);
extern "C" __global__ void kernel(float* a) {
  a[threadIdx.x] = hole(a[threadIdx.x]);
  a[threadIdx.x + 32] = hole(a[threadIdx.x + 32]);
}
#else
extern "C" __device__ float hole(float acc) { return sinf(acc); }
#endif
