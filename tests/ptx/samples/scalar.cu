// One float in, one float out; a row vector beside it; a call with an immediate.
#ifdef KERNEL
extern "C" __device__ float hole(float acc, float bias);
extern "C" __global__ void kernel(const float* a, const float* bias, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = hole(a[i], bias[i]);
  if (i == n) out[i] = hole(3.0f, bias[0]);
}
#else
extern "C" __device__ float hole(float acc, float bias) {
  float x = acc + bias;
  return __fdividef(x, 1.0f + __expf(-x));
}
#endif
