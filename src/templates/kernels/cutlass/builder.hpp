// The builder of one row: checks a problem, and computes its workspace and the kernel's parameters.
// It touches no device and no CUDA context.
#pragma once

#include <cstring>
#include <new>

#include "driver.hpp"
#include "host/factor.hpp"
#include "kernel.cuh"

namespace attacca_cutlass {
namespace {

using SchedulerArguments = typename Kernel::TileSchedulerArguments;
constexpr int kTmaBytes = 16;  // alignment of addresses and strides

constexpr int kInputBytes = 2;

// Checks a result, whose elements may not share memory.
int check_result(const Factor& x, char* reason, size_t size) {
  if (check_factor(x, Steps::Tma, reason, size)) return 1;
  if (x.outer.extent > 1 && x.outer.stride < x.inner.extent)
    return refuse(reason, size, "%s: rows of %lld elements every %lld overlap", x.name,
                  static_cast<long long>(x.inner.extent), static_cast<long long>(x.outer.stride));
  if (x.batch.extent > 1 && x.batch.stride == 0)
    return refuse(reason, size, "%s: every batch at one address", x.name);
  return 0;
}

int check_factors(const attacca_gemm_arguments& g, char* reason, size_t size) {
  if (check_operands(g, reason, size)) return 1;
  if (check_factor(factor_a(g, kInputBytes), Steps::Tma, reason, size)) return 1;
  if (check_factor(factor_b(g, 0, kBKMajor, kInputBytes), Steps::Tma, reason, size)) return 1;
  static constexpr const char* kResultNames[2] = {"result 0", "result 1"};
  static constexpr const char* kFullNames[4] = {"full operand 0", "full operand 1",
                                                "full operand 2", "full operand 3"};
  for (int i = 0; i < kResults; ++i)
    if (check_result(factor_mn(kResultNames[i], g.result[i], kResultBits[i] / 8, g), reason, size))
      return 1;
  for (int i = 0; i < kFulls; ++i)
    if (g.full[i].pointer && check_factor(factor_mn(kFullNames[i], g.full[i], kFullBits[i] / 8, g),
                                          Steps::Tma, reason, size))
      return 1;
  return 0;
}

int64_t tiles(int64_t extent, int64_t tile) {
  return (extent + tile - 1) / tile;
}

int check(const attacca_gemm_arguments* g, char* reason, size_t size) {
  if (g->m < 1 || g->n < 1 || g->k < 1 || g->batch < 1)
    return refuse(reason, size, "m, n, k, batch are %d, %d, %d, %d; at least 1 each is needed",
                  g->m, g->n, g->k, g->batch);
  if (g->sm_count < 1) return refuse(reason, size, "sm_count is %d", g->sm_count);
  if (g->swizzle != 0 && g->swizzle != 1 && g->swizzle != 2 && g->swizzle != 4 && g->swizzle != 8)
    return refuse(reason, size, "swizzle is %d; 0, 1, 2, 4 or 8 is taken", g->swizzle);
  if (g->raster < 0 || g->raster > 2)
    return refuse(reason, size, "raster is %d; 0, 1 or 2 is taken", g->raster);
  const int64_t k_tiles = tiles(g->k, GEMM_TILE_K);
  if (g->splits < 0 || g->splits > (kStreamK ? k_tiles : 1))
    return refuse(reason, size, "splits is %d; 0 to %lld is taken", g->splits,
                  static_cast<long long>(kStreamK ? k_tiles : 1));
  // CUTLASS counts tiles and their parts in 32 bits, after rounding to clusters and swizzle.
  const int64_t m_tiles = tiles(kSwapped ? g->n : g->m, GEMM_TILE_M) + 16;
  const int64_t n_tiles = tiles(kSwapped ? g->m : g->n, GEMM_TILE_N) + 16;
  const double units =
      double(m_tiles) * double(n_tiles) * g->batch * (kStreamK ? double(k_tiles) : 1);
  if (units >= 2147483647.0)
    return refuse(reason, size, "%g tiles are too many for 32 bits", units);
  return check_factors(*g, reason, size);
}

// The strides of a matrix as CUTLASS's type.
template <class Stride>
Stride stride_of(const Factor& x) {
  const auto [outer, batch] = outer_strides(x);
  Stride stride{};
  if constexpr (cute::is_static<cute::remove_cvref_t<decltype(cute::get<0>(stride))>>::value) {
    cute::get<1>(stride) = outer;
  } else {
    cute::get<0>(stride) = outer;
  }
  cute::get<2>(stride) = x.batch.extent > 1 ? batch : 0;
  return stride;
}

// Child I of a visitor's arguments.
template <int I, class Arguments>
auto& child(Arguments& arguments) {
  if constexpr (I == 0)
    return arguments.op_0;
  else if constexpr (I == 1)
    return arguments.op_1;
  else if constexpr (I == 2)
    return arguments.op_2;
  else
    return arguments.op_3;
}

// Points a leaf that loads or stores at its operand.
template <class Leaf>
void point_leaf(Leaf& leaf, const attacca_operand& operand, int bits,
                const attacca_gemm_arguments& g) {
  leaf.ptr_aux = static_cast<decltype(leaf.ptr_aux)>(operand.pointer);
  leaf.dAux = stride_of<decltype(leaf.dAux)>(factor_mn("", operand, bits / 8, g));
}

// A template, so that children that the visitor lacks are not compiled.
template <class Arguments>
Arguments fusion_arguments(const attacca_gemm_arguments& g) {
  Arguments arguments{};
  if constexpr (kFulls > 0) point_leaf(child<0>(arguments), g.full[0], kFullBits[0], g);
  if constexpr (kFulls > 1) point_leaf(child<1>(arguments), g.full[1], kFullBits[1], g);
  if constexpr (kResults > 1) point_leaf(child<kFulls>(arguments), g.result[1], kResultBits[1], g);
  auto& node = child<kFulls + kResults - 1>(arguments);
  std::memcpy(node.row, g.row, sizeof node.row);
  std::memcpy(node.column, g.column, sizeof node.column);
  node.context = g.context;
  return arguments;
}

SchedulerArguments scheduler_arguments(const attacca_gemm_arguments& g) {
  SchedulerArguments arguments{};
  using Raster = decltype(arguments.raster_order);
  arguments.max_swizzle_size = g.swizzle ? g.swizzle : 1;
  arguments.raster_order = g.raster == 1   ? Raster::AlongM
                           : g.raster == 2 ? Raster::AlongN
                                           : Raster::Heuristic;
#if GEMM_STREAM_K
  using Mode = decltype(arguments.decomposition_mode);
  arguments.splits = g.splits ? g.splits : 1;
  arguments.decomposition_mode = g.splits == 0   ? Mode::StreamK
                                 : g.splits == 1 ? Mode::DataParallel
                                                 : Mode::SplitK;
#endif
  return arguments;
}

typename Kernel::Arguments kernel_arguments(const attacca_gemm_arguments& g) {
  const Factor a = factor_a(g, kInputBytes), b = factor_b(g, 0, kBKMajor, kInputBytes);
  const Factor& kernel_a = kSwapped ? b : a;
  const Factor& kernel_b = kSwapped ? a : b;
  typename Kernel::Arguments arguments{};
  arguments.mode = cutlass::gemm::GemmUniversalMode::kGemm;
  arguments.problem_shape =
      cute::make_shape(kSwapped ? g.n : g.m, kSwapped ? g.m : g.n, g.k, g.batch);
  arguments.mainloop.ptr_A = static_cast<const Input*>(kernel_a.pointer);
  arguments.mainloop.dA = stride_of<typename Kernel::StrideA>(kernel_a);
  arguments.mainloop.ptr_B = static_cast<const Input*>(kernel_b.pointer);
  arguments.mainloop.dB = stride_of<typename Kernel::StrideB>(kernel_b);
  arguments.epilogue.thread = fusion_arguments<typename Fusion::Arguments>(g);
  arguments.epilogue.ptr_C = nullptr;
  arguments.epilogue.ptr_D = static_cast<Output*>(g.result[0].pointer);
  arguments.epilogue.dD =
      stride_of<typename Kernel::StrideD>(factor_mn("", g.result[0], kResultBits[0] / 8, g));
  arguments.epilogue.dC = arguments.epilogue.dD;
  arguments.hw_info.device_id = 0;
  arguments.hw_info.sm_count = g.sm_count;
  arguments.scheduler = scheduler_arguments(g);
  return arguments;
}

// The workspace of a stream-K kernel: the partial sums, then the counters by which blocks wait for
// each other, which must be zero before a launch.
size_t workspace(const attacca_gemm_arguments* g, size_t* zero_offset, size_t* zero_bytes) {
  *zero_offset = *zero_bytes = 0;
#if GEMM_STREAM_K
  using Params = typename Kernel::TileSchedulerParams;
  using TileScheduler = typename Kernel::TileScheduler;
  const auto arguments = kernel_arguments(*g);
  const auto& schedule = arguments.scheduler;
  size_t counters = 0, sums = 0;
  Params::get_workspace_component_sizes(
      TileScheduler::get_tiled_cta_shape_mnl(arguments.problem_shape, Tile{}, Cluster{}),
      static_cast<uint32_t>(tiles(g->k, GEMM_TILE_K)), cutlass::gemm::to_gemm_coord(Tile{}),
      cutlass::gemm::to_gemm_coord(Cluster{}), counters, sums, arguments.hw_info, schedule.splits,
      schedule.max_swizzle_size, schedule.raster_order, schedule.decomposition_mode,
      schedule.reduction_mode, Kernel::NumMmaWarpGroups,
      cutlass::sizeof_bits<typename TileScheduler::BarrierType>::value,
      cutlass::sizeof_bits<typename Kernel::ElementAccumulator>::value);
  *zero_offset = sums;
  *zero_bytes = counters;
  return sums + counters;
#else
  return 0;
#endif
}

int build(const attacca_gemm_arguments* g, void* params, uint32_t grid[3], char* reason,
          size_t size) {
  if (check(g, reason, size)) return 1;
  if (!g->a.pointer || !g->b.pointer || !g->result[0].pointer)
    return refuse(reason, size, "A, B and result 0 need addresses");
  size_t zero_offset, zero_bytes;
  if (!g->workspace && workspace(g, &zero_offset, &zero_bytes))
    return refuse(reason, size, "no workspace given");
  if (reinterpret_cast<uintptr_t>(g->workspace) % cutlass::MinWorkspaceAlignment)
    return refuse(reason, size, "workspace at %p: its address must be a multiple of %d",
                  g->workspace, cutlass::MinWorkspaceAlignment);
  encode_result = CUDA_SUCCESS;
  const auto* made = new (params)
      typename Kernel::Params(Kernel::to_underlying_arguments(kernel_arguments(*g), g->workspace));
  if (encode_result != CUDA_SUCCESS)
    return refuse(reason, size, "cuTensorMapEncodeTiled failed with %d",
                  static_cast<int>(encode_result));
  const dim3 shape = Kernel::get_grid_shape(*made);
  grid[0] = shape.x;
  grid[1] = shape.y;
  grid[2] = shape.z;
  return 0;
}

attacca_info info() {
  attacca_info info;
  info.arch = "sm_90a";
  info.min_capability = info.max_capability = 90;
  info.input_types[0] = "bf16";
  info.input_types[1] = "f16";
  info.b_k_major = kBKMajor;
  info.tile_m = GEMM_TILE_M;
  info.tile_n = GEMM_TILE_N;
  info.tile_k = GEMM_TILE_K;
  info.cluster_m = GEMM_CLUSTER_M;
  info.cluster_n = GEMM_CLUSTER_N;
  info.schedule = kPingpong ? "pingpong" : "cooperative";
  info.stream_k = kStreamK;
  info.dependent_launch = true;
  info.stages = Mainloop::DispatchPolicy::Stages;
  info.threads = Kernel::MaxThreadsPerBlock;
  info.shared_bytes = Kernel::SharedStorageSize;
  info.align_a = info.align_b = info.align_d = kTmaBytes;
  describe_hole(info);
  info.swapped = kSwapped;
  return info;
}

}  // namespace
}  // namespace attacca_cutlass
