// Products with CuTe and CUTLASS: mma.sync with cp.async, CUTLASS 2's kernels for tensor cores and
// for plain FMAs, and wgmma as CUTLASS 3 structures it. b is [n, k] but for cutlass2_sgemm.
#include <cute/tensor.hpp>
#include <cutlass/epilogue/thread/linear_combination.h>
#include <cutlass/gemm/kernel/default_gemm.h>
#include <cutlass/gemm/threadblock/threadblock_swizzle.h>

using namespace cute;

// ---- CuTe, sm_80: 128 x 128 x 32, three stages

namespace sm80 {
using Smem = decltype(tile_to_shape(
    composition(Swizzle<2, 3, 3>{}, Layout<Shape<_8, _32>, Stride<_32, _1>>{}),
    Shape<_128, _32, _3>{}));
}  // namespace sm80

extern "C" __global__ void __launch_bounds__(128)
    cute_mma_gemm(const half_t* a, const half_t* b, half_t* c, int m, int n, int k) {
  __shared__ __align__(128) half_t smem_a[cosize_v<sm80::Smem>];
  __shared__ __align__(128) half_t smem_b[cosize_v<sm80::Smem>];
  const auto coord = make_coord(blockIdx.x, blockIdx.y, _);
  const auto tiler = Shape<_128, _128, _32>{};
  Tensor all_a = make_tensor(make_gmem_ptr(a), make_shape(m, k), make_stride(k, _1{}));
  Tensor all_b = make_tensor(make_gmem_ptr(b), make_shape(n, k), make_stride(k, _1{}));
  Tensor all_c = make_tensor(make_gmem_ptr(c), make_shape(m, n), make_stride(n, _1{}));
  Tensor block_a = local_tile(all_a, tiler, coord, Step<_1, X, _1>{});
  Tensor block_b = local_tile(all_b, tiler, coord, Step<X, _1, _1>{});
  Tensor block_c = local_tile(all_c, tiler, coord, Step<_1, _1, X>{});
  Tensor stages_a = make_tensor(make_smem_ptr(smem_a), sm80::Smem{});
  Tensor stages_b = make_tensor(make_smem_ptr(smem_b), sm80::Smem{});

  const auto fetch = make_tiled_copy(Copy_Atom<SM80_CP_ASYNC_CACHEALWAYS<uint128_t>, half_t>{},
                                     Layout<Shape<_32, _4>, Stride<_4, _1>>{},
                                     Layout<Shape<_1, _8>>{});
  const auto mine = fetch.get_slice(threadIdx.x);
  Tensor from_a = mine.partition_S(block_a);
  Tensor to_a = mine.partition_D(stages_a);
  Tensor from_b = mine.partition_S(block_b);
  Tensor to_b = mine.partition_D(stages_b);

  const auto mma = make_tiled_mma(SM80_16x8x16_F32F16F16F32_TN{}, Layout<Shape<_2, _2>>{},
                                  Tile<_32, _32, _16>{});
  const auto part = mma.get_slice(threadIdx.x);
  Tensor values_a = part.partition_fragment_A(stages_a(_, _, 0));
  Tensor values_b = part.partition_fragment_B(stages_b(_, _, 0));
  Tensor part_c = part.partition_C(block_c);
  Tensor sums = part.make_fragment_C(part_c);
  clear(sums);
  const auto load_a = make_tiled_copy_A(Copy_Atom<SM75_U32x4_LDSM_N, half_t>{}, mma);
  const auto load_b = make_tiled_copy_B(Copy_Atom<SM75_U32x4_LDSM_N, half_t>{}, mma);
  const auto slice_a = load_a.get_slice(threadIdx.x);
  const auto slice_b = load_b.get_slice(threadIdx.x);
  Tensor smem_part_a = slice_a.partition_S(stages_a);
  Tensor view_a = slice_a.retile_D(values_a);
  Tensor smem_part_b = slice_b.partition_S(stages_b);
  Tensor view_b = slice_b.retile_D(values_b);

  const int steps = size<2>(block_a);
  for (int step = 0; step < 2; ++step) {
    copy(fetch, from_a(_, _, _, step), to_a(_, _, _, step));
    copy(fetch, from_b(_, _, _, step), to_b(_, _, _, step));
    cp_async_fence();
  }
  for (int step = 0; step < steps; ++step) {
    cp_async_wait<1>();
    __syncthreads();
    const int stage = step % 3;
    if (step + 2 < steps) {
      copy(fetch, from_a(_, _, _, step + 2), to_a(_, _, _, (step + 2) % 3));
      copy(fetch, from_b(_, _, _, step + 2), to_b(_, _, _, (step + 2) % 3));
    }
    cp_async_fence();
    copy(load_a, smem_part_a(_, _, _, stage), view_a);
    copy(load_b, smem_part_b(_, _, _, stage), view_b);
    gemm(mma, values_a, values_b, sums);
  }
  Tensor results = make_fragment_like<half_t>(sums);
  for (int i = 0; i < size(sums); ++i) results(i) = static_cast<half_t>(sums(i));
  copy(AutoVectorizingCopy{}, results, part_c);
}

// ---- CUTLASS 2's kernels, whose parameters are made on the device

namespace cutlass2 {

namespace cg = cutlass::gemm;

using Tensor16 = cg::kernel::DefaultGemm<
    cutlass::bfloat16_t, cutlass::layout::RowMajor, 8, cutlass::bfloat16_t,
    cutlass::layout::ColumnMajor, 8, cutlass::bfloat16_t, cutlass::layout::RowMajor, float,
    cutlass::arch::OpClassTensorOp, cutlass::arch::Sm80, cg::GemmShape<128, 128, 32>,
    cg::GemmShape<64, 64, 32>, cg::GemmShape<16, 8, 16>,
    cutlass::epilogue::thread::LinearCombination<
        cutlass::bfloat16_t, 8, float, float, cutlass::epilogue::thread::ScaleType::Nothing>,
    cg::threadblock::GemmIdentityThreadblockSwizzle<1>, 4, false,
    cutlass::arch::OpMultiplyAdd>::GemmKernel;

using Simt = cg::kernel::DefaultGemm<
    float, cutlass::layout::RowMajor, 1, float, cutlass::layout::RowMajor, 1, float,
    cutlass::layout::RowMajor, float, cutlass::arch::OpClassSimt, cutlass::arch::Sm80,
    cg::GemmShape<128, 128, 8>, cg::GemmShape<32, 64, 8>, cg::GemmShape<1, 1, 1>,
    cutlass::epilogue::thread::LinearCombination<
        float, 1, float, float, cutlass::epilogue::thread::ScaleType::Nothing>,
    cg::threadblock::GemmIdentityThreadblockSwizzle<1>, 4, false,
    cutlass::arch::OpMultiplyAdd>::GemmKernel;

template <class Kernel, class T>
__device__ __forceinline__ void run(const T* a, const T* b, T* c, int m, int n, int k, int ld_b) {
  extern __shared__ char smem[];
  using Shape = typename Kernel::Mma::Shape;
  const cg::GemmCoord tiles((m + Shape::kM - 1) / Shape::kM, (n + Shape::kN - 1) / Shape::kN, 1);
  typename Kernel::Params params({m, n, k}, tiles, {const_cast<T*>(a), k},
                                 {const_cast<T*>(b), ld_b}, {nullptr, n}, {c, n});
  Kernel()(params, *reinterpret_cast<typename Kernel::SharedStorage*>(smem));
}

}  // namespace cutlass2

extern "C" __global__ void __launch_bounds__(128)
    cutlass2_gemm(const cutlass::bfloat16_t* a, const cutlass::bfloat16_t* b,
                  cutlass::bfloat16_t* c, int m, int n, int k) {
  static_assert(sizeof(cutlass2::Tensor16::SharedStorage) <= 65536);
  cutlass2::run<cutlass2::Tensor16>(a, b, c, m, n, k, k);
}

extern "C" __global__ void __launch_bounds__(256)
    cutlass2_sgemm(const float* a, const float* b, float* c, int m, int n, int k) {
  static_assert(sizeof(cutlass2::Simt::SharedStorage) <= 49152);
  cutlass2::run<cutlass2::Simt>(a, b, c, m, n, k, n);
}

// ---- wgmma: 128 x 128 x 64, four stages filled by cp.async, two warp groups

namespace sm90 {
using Smem = decltype(tile_to_shape(GMMA::Layout_K_SW128_Atom<bfloat16_t>{},
                                    Shape<_128, _64, Int<4>>{}));
}  // namespace sm90

extern "C" __global__ void __launch_bounds__(256)
    cute_wgmma_gemm(const bfloat16_t* a, const bfloat16_t* b, bfloat16_t* c, int m, int n, int k) {
  extern __shared__ __align__(1024) bfloat16_t stages[];
  const auto coord = make_coord(blockIdx.x, blockIdx.y, _);
  const auto tiler = Shape<_128, _128, _64>{};
  Tensor all_a = make_tensor(make_gmem_ptr(a), make_shape(m, k), make_stride(k, _1{}));
  Tensor all_b = make_tensor(make_gmem_ptr(b), make_shape(n, k), make_stride(k, _1{}));
  Tensor all_c = make_tensor(make_gmem_ptr(c), make_shape(m, n), make_stride(n, _1{}));
  Tensor block_a = local_tile(all_a, tiler, coord, Step<_1, X, _1>{});
  Tensor block_b = local_tile(all_b, tiler, coord, Step<X, _1, _1>{});
  Tensor block_c = local_tile(all_c, tiler, coord, Step<_1, _1, X>{});
  Tensor stages_a = make_tensor(make_smem_ptr(stages), sm90::Smem{});
  Tensor stages_b = make_tensor(make_smem_ptr(stages + cosize_v<sm90::Smem>), sm90::Smem{});

  const auto fetch = make_tiled_copy(Copy_Atom<SM80_CP_ASYNC_CACHEALWAYS<uint128_t>, bfloat16_t>{},
                                     Layout<Shape<_32, _8>, Stride<_8, _1>>{},
                                     Layout<Shape<_1, _8>>{});
  const auto mine = fetch.get_slice(threadIdx.x);
  Tensor from_a = mine.partition_S(block_a);
  Tensor to_a = mine.partition_D(stages_a);
  Tensor from_b = mine.partition_S(block_b);
  Tensor to_b = mine.partition_D(stages_b);

  const auto mma = make_tiled_mma(
      SM90_64x128x16_F32BF16BF16_SS<GMMA::Major::K, GMMA::Major::K>{}, Layout<Shape<_2, _1, _1>>{});
  const auto part = mma.get_slice(threadIdx.x);
  Tensor described_a = part.make_fragment_A(part.partition_A(stages_a));
  Tensor described_b = part.make_fragment_B(part.partition_B(stages_b));
  Tensor part_c = part.partition_C(block_c);
  Tensor sums = part.make_fragment_C(part_c);
  clear(sums);

  const int steps = size<2>(block_a);
  for (int step = 0; step < 3; ++step) {
    copy(fetch, from_a(_, _, _, step), to_a(_, _, _, step));
    copy(fetch, from_b(_, _, _, step), to_b(_, _, _, step));
    cp_async_fence();
  }
  for (int step = 0; step < steps; ++step) {
    cp_async_wait<2>();
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    warpgroup_fence_operand(sums);
    warpgroup_arrive();
    gemm(mma, described_a(_, _, _, step % 4), described_b(_, _, _, step % 4), sums);
    warpgroup_commit_batch();
    warpgroup_wait<0>();
    warpgroup_fence_operand(sums);
    if (step + 3 < steps) {
      copy(fetch, from_a(_, _, _, step + 3), to_a(_, _, _, (step + 3) % 4));
      copy(fetch, from_b(_, _, _, step + 3), to_b(_, _, _, (step + 3) % 4));
    }
    cp_async_fence();
  }
  Tensor results = make_fragment_like<bfloat16_t>(sums);
  for (int i = 0; i < size(sums); ++i) results(i) = static_cast<bfloat16_t>(sums(i));
  copy(AutoVectorizingCopy{}, results, part_c);
}
