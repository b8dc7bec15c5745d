// The two sides see the same bytes as different fields.
#ifdef KERNEL
struct Fields {
  unsigned a, b;
  unsigned short c, d;
};
extern "C" __device__ Fields hole(Fields f);
extern "C" __global__ void kernel(Fields* f) { f[threadIdx.x] = hole(f[threadIdx.x]); }
#else
struct __align__(4) Fields {
  float a;
  unsigned short b_low;
  short b_high;
  unsigned cd;
};
extern "C" __device__ Fields hole(Fields f) {
  Fields out = {f.a + 1.0f, (unsigned short)(f.b_high >> 1), (short)f.b_low, f.cd * 3};
  return out;
}
#endif
