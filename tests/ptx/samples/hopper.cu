// Cluster launch, barriers in inline assembly, TMA, wgmma: what surrounds the hole of a template.
#ifdef KERNEL
struct Map {
  alignas(64) char bytes[128];
};
extern "C" __device__ float hole(float acc);
extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(128)
    kernel(const __grid_constant__ Map map, float* out) {
  extern __shared__ char smem[];
  unsigned at = __cvta_generic_to_shared(smem);
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(at), "r"(1));
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
      " [%0], [%1, {%3, %4}], [%2];" ::"r"(at + 1024), "l"(&map), "r"(at), "r"(0), "r"(0)
      : "memory");
  asm volatile(
      "{\n.reg .pred P1;\nLAB_WAIT:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 P1, [%0], %1;\n@P1 bra DONE;\nbra LAB_WAIT;\n"
      "DONE:\n}" ::"r"(at), "r"(0));
  float d[4] = {};
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %6, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%0, %1, %2, %3}, %4, %5, p, 1, 1, 0, "
      "0;\n}"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "l"(1ull), "l"(2ull), "r"(0));
  asm volatile("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;" ::: "memory");
  for (int i = 0; i < 4; ++i) out[threadIdx.x * 4 + i] = hole(d[i]);
}
#else
extern "C" __device__ float hole(float acc) { return tanhf(acc); }
#endif
