// A CuTe kernel: layouts, partitions, a tiled MMA of fp32 FMAs.
#include <cute/tensor.hpp>

using namespace cute;

extern "C" __global__ void cute_gemm(const float* a, const float* b, float* c, int m, int n,
                                     int k) {
  const Tensor matrix_a = make_tensor(make_gmem_ptr(a), make_shape(m, k), make_stride(k, _1{}));
  const Tensor matrix_b = make_tensor(make_gmem_ptr(b), make_shape(n, k), make_stride(_1{}, n));
  const Tensor matrix_c = make_tensor(make_gmem_ptr(c), make_shape(m, n), make_stride(n, _1{}));
  const auto tile = make_shape(_16{}, _16{}, _8{});
  const auto at = make_coord(blockIdx.y, blockIdx.x, _);
  const Tensor block_a = local_tile(matrix_a, tile, at, Step<_1, X, _1>{});
  const Tensor block_b = local_tile(matrix_b, tile, at, Step<X, _1, _1>{});
  Tensor block_c = local_tile(matrix_c, tile, at, Step<_1, _1, X>{});

  const auto mma = make_tiled_mma(UniversalFMA<float>{}, Layout<Shape<_4, _8, _1>>{});
  const auto mine = mma.get_slice(threadIdx.x);
  Tensor part_c = mine.partition_C(block_c);
  Tensor sums = mine.make_fragment_C(part_c);
  clear(sums);
  for (int step = 0; step < size<2>(block_a); ++step) {
    const Tensor part_a = mine.partition_A(block_a(_, _, step));
    const Tensor part_b = mine.partition_B(block_b(_, _, step));
    Tensor values_a = mine.make_fragment_A(part_a);
    Tensor values_b = mine.make_fragment_B(part_b);
    copy(part_a, values_a);
    copy(part_b, values_b);
    gemm(mma, values_a, values_b, sums);
  }
  copy(sums, part_c);
}
