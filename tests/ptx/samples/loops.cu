// Labels, a loop, a jump table.
#ifdef KERNEL
extern "C" __device__ int hole(int acc, int n);
extern "C" __global__ void kernel(int* a, int n) {
#pragma unroll 1
  for (int i = threadIdx.x; i < n; i += blockDim.x) a[i] = hole(a[i], i) + hole(a[i], n);
}
#else
extern "C" __device__ int hole(int acc, int n) {
  switch (n & 7) {
    case 0: acc = __popc(acc); break;
    case 1: acc = __brev(acc); break;
    case 2: acc = acc * acc; break;
    case 3: acc = __clz(acc); break;
    case 4: acc ^= n; break;
    case 5: acc = acc / n; break;
    default: return -1;
  }
#pragma unroll 1
  for (int i = 0; i < n; ++i) acc = acc * 3 + i;
  return acc;
}
#endif
