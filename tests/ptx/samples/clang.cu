// compiler: clang
#define __device__ __attribute__((device))
#define __global__ __attribute__((global))
struct Pair {
  float a, b;
};
#ifdef KERNEL
extern "C" __device__ Pair hole(float acc, Pair other, char c);
extern "C" __global__ void kernel(Pair* p, const float* a, char c) {
  *p = hole(*a, *p, c);
}
#else
extern "C" __device__ Pair hole(float acc, Pair other, char c) {
  if (acc > other.a) return other;
  Pair result = {acc + other.b, acc * c};
  return result;
}
#endif
