// The CUTLASS kernel of one row of the table (templates.cmake), from the row's defines.
#pragma once

#include <cutlass/cutlass.h>
#include <cutlass/epilogue/collective/collective_builder.hpp>
#include <cutlass/gemm/collective/collective_builder.hpp>
#include <cutlass/gemm/kernel/gemm_universal.hpp>

#include "visitor.cuh"

namespace attacca_cutlass {
namespace {  // the rows' builders are linked together

constexpr bool kSwapped = GEMM_SWAPPED;    // the weights are the kernel's M side
constexpr bool kBKMajor = GEMM_B_K_MAJOR;  // of the problem's B
constexpr bool kPingpong = GEMM_PINGPONG;
constexpr bool kStreamK = GEMM_STREAM_K;
constexpr int kMaxSharedBytes = 232448;  // of a block on sm_90

// The types that CUTLASS is told. They only carry bits, so bf16 stands for f16 too.
template <int Width>
using Bits = cute::conditional_t<Width == 16, cutlass::bfloat16_t, float>;
using Input = cutlass::bfloat16_t;
using Output = Bits<kResultBits[0]>;

using Tile = cute::Shape<cute::Int<GEMM_TILE_M>, cute::Int<GEMM_TILE_N>, cute::Int<GEMM_TILE_K>>;
using Cluster = cute::Shape<cute::Int<GEMM_CLUSTER_M>, cute::Int<GEMM_CLUSTER_N>, cute::_1>;
using MainSchedule = cute::conditional_t<kPingpong, cutlass::gemm::KernelTmaWarpSpecializedPingpong,
                                         cutlass::gemm::KernelTmaWarpSpecializedCooperative>;
using EpilogueSchedule = cute::conditional_t<kPingpong, cutlass::epilogue::TmaWarpSpecialized,
                                             cutlass::epilogue::TmaWarpSpecializedCooperative>;
using Scheduler = cute::conditional_t<kStreamK, cutlass::gemm::StreamKScheduler, void>;

// CUTLASS calls A [M, K] row-major when K is contiguous, B [K, N] column-major when K is.
using LayoutA = cute::conditional_t<kSwapped && !kBKMajor, cutlass::layout::ColumnMajor,
                                    cutlass::layout::RowMajor>;
using LayoutB = cute::conditional_t<!kSwapped && !kBKMajor, cutlass::layout::RowMajor,
                                    cutlass::layout::ColumnMajor>;
using LayoutD =
    cute::conditional_t<kSwapped, cutlass::layout::ColumnMajor, cutlass::layout::RowMajor>;

// Must name the same types as the collective below, or the stages differ.
using Descriptor = cutlass::epilogue::collective::detail::EpilogueDescriptor<
    Tile, cutlass::epilogue::collective::EpilogueTileAuto, void, Output, EpilogueSchedule>;
template <int Width>
using Full = FullLoad<
    cutlass::epilogue::collective::detail::AuxLoadDescriptor<Descriptor, LayoutD, Bits<Width>>,
    Bits<Width>>;
// A node follows its operands: the loads of full operands, then the second result's store.
#if defined(HOLE_RESULT1)
using SecondOutput = Bits<kResultBits[1]>;
using StoreDescriptor =
    cutlass::epilogue::collective::detail::AuxStoreDescriptor<Descriptor, LayoutD, SecondOutput>;
using SecondStore =
    fusion::Sm90AuxStore<StoreDescriptor::Stages, typename StoreDescriptor::EpilogueTile,
                         SecondOutput, cutlass::FloatRoundStyle::round_to_nearest,
                         typename StoreDescriptor::Stride, typename StoreDescriptor::SmemLayoutAtom,
                         typename StoreDescriptor::CopyOpR2S>;
using Node = HoleNode<Tile, Output, SecondOutput, kSwapped>;
template <int... Widths>
using Visitor = TwoResults<Node, SecondStore, Full<Widths>...>;
#else
using Node = HoleNode<Tile, Output, void, kSwapped>;
template <int... Widths>
using Visitor = fusion::Sm90TreeVisitor<Node, Full<Widths>...>;
#endif
#if defined(HOLE_FULL1)
using Fusion = Visitor<HOLE_FULL0, HOLE_FULL1>;
#elif defined(HOLE_FULL0)
using Fusion = Visitor<HOLE_FULL0>;
#else
using Fusion = Visitor<>;
#endif

using Epilogue = typename cutlass::epilogue::collective::CollectiveBuilder<
    cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp, Tile, Cluster,
    cutlass::epilogue::collective::EpilogueTileAuto, float, float, void, LayoutD,
    128 / kResultBits[0], Output, LayoutD, 128 / kResultBits[0], EpilogueSchedule,
    Fusion>::CollectiveOp;
using Mainloop = typename cutlass::gemm::collective::CollectiveBuilder<
    cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp, Input, LayoutA, 8, Input, LayoutB, 8,
    float, Tile, Cluster,
    cutlass::gemm::collective::StageCountAutoCarveout<sizeof(typename Epilogue::SharedStorage)>,
    MainSchedule>::CollectiveOp;
using Kernel = cutlass::gemm::kernel::GemmUniversal<cute::Shape<int, int, int, int>, Mainloop,
                                                    Epilogue, Scheduler>;

static_assert(Kernel::SharedStorageSize <= kMaxSharedBytes);

}  // namespace
}  // namespace attacca_cutlass
