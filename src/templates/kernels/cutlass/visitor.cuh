// The epilogue of a CUTLASS template: a node of CUTLASS's epilogue visitor tree that calls the hole
// for every two neighbouring accumulators, with the operands in its slots.
//
// Row and column slots are read into shared memory once a tile, as 32-bit words whatever their
// width and stride, so that a thread finds all of them at fixed offsets from one address. What the
// spliced body does not use takes no registers: ptxas removes its loads.
#pragma once

#include <cute/tensor.hpp>
#include <cutlass/epilogue/fusion/sm90_callbacks_tma_warpspecialized.hpp>

#include "common/hole.cuh"
#include "common/prefetch.cuh"

namespace attacca_cutlass {

namespace fusion = cutlass::epilogue::fusion;

// Loads a full operand by TMA. If it is absent (NULL), the loading warp does nothing.
template <class Descriptor, class Bits>
struct FullLoad
    : fusion::Sm90AuxLoad<Descriptor::Stages, typename Descriptor::EpilogueTile, Bits,
                          typename Descriptor::Stride, typename Descriptor::SmemLayoutAtom,
                          typename Descriptor::CopyOpS2R> {
  using Base = fusion::Sm90AuxLoad<Descriptor::Stages, typename Descriptor::EpilogueTile, Bits,
                                   typename Descriptor::Stride, typename Descriptor::SmemLayoutAtom,
                                   typename Descriptor::CopyOpS2R>;
  using Base::Base;
  CUTLASS_DEVICE bool is_producer_load_needed() const { return !this->params_ptr->use_default; }
};

// put_pair() and take_pair() copy elements i and i + 1 to and from the hole's words: one word of
// two 16-bit values, or two words. They copy whole words: the compiler would not merge 16-bit
// halves again.
template <class Bits, int Size>
CUTLASS_DEVICE void put_pair(uint32_t (&words)[2], const cutlass::Array<Bits, Size>& from, int i) {
  const auto* all = reinterpret_cast<const uint32_t*>(&from);
  if constexpr (sizeof(Bits) == 2) {
    words[0] = all[i / 2];
  } else {
    words[0] = all[i];
    words[1] = all[i + 1];
  }
}

template <class Bits, int Size>
CUTLASS_DEVICE void take_pair(cutlass::Array<Bits, Size>& to, int i, const uint32_t* words) {
  auto* all = reinterpret_cast<uint32_t*>(&to);
  if constexpr (sizeof(Bits) == 2) {
    all[i / 2] = words[0];
  } else {
    all[i] = words[0];
    all[i + 1] = words[1];
  }
}

// Reads Extent elements of a vector from `first` on, zero beyond `end`.
template <int Extent, int Threads>
CUTLASS_DEVICE void stage(uint32_t* to, const attacca_vector& from, int thread, int first, int end,
                          int batch) {
  if (from.pointer == nullptr) return;
  CUTLASS_PRAGMA_UNROLL
  for (int base = 0; base < Extent; base += Threads) {
    const int i = base + thread;
    if (i >= Extent) break;
    uint32_t word = 0;
    if (first + i < end) {
      const int64_t at = int64_t(first + i) * from.stride + batch * from.batch_stride;
      if (from.bytes == 2) {
        word = static_cast<const uint16_t*>(from.pointer)[at];
      } else if (from.bytes == 4) {
        word = static_cast<const uint32_t*>(from.pointer)[at];
      } else {
        word = static_cast<const uint8_t*>(from.pointer)[at];
      }
    }
    to[i] = word;
  }
}

// Whether elements 2i and 2i + 1 of a thread neighbour along the kernel's N, the first at an even
// distance from element 0.
template <class Coordinates>
CUTLASS_HOST_DEVICE constexpr bool pairs_neighbour() {
  using Layout = typename Coordinates::layout_type;
  using namespace cute;
  constexpr int kPairs = decltype(size(take<0, 3>(shape(Layout{}))))::value / 2;
  return cute::apply(make_int_sequence<kPairs>{}, [](auto... i) {
    auto m = [](auto index) { return get<0>(Layout{}(index)); };
    auto n = [](auto index) { return get<1>(Layout{}(index)); };
    return ((m(i * _2{} + _1{}) == m(i * _2{}) && n(i * _2{} + _1{}) == n(i * _2{}) + _1{} &&
             n(i * _2{}) % 2 == 0) &&
            ...);
  });
}

// First, Second: the containers of the results' elements; Second is void where there is one result.
// Swapped: the kernel's rows are the problem's columns.
template <class CtaTile, class First, class Second, bool Swapped>
struct HoleNode {
  static constexpr bool kTwoResults = !cute::is_void_v<Second>;
  template <int Size>
  struct Results {
    cutlass::Array<First, Size> first;
    cutlass::Array<cute::conditional_t<kTwoResults, Second, First>, Size> second;  // if kTwoResults
  };
  static constexpr int kTileM = cute::size<0>(CtaTile{});
  static constexpr int kTileN = cute::size<1>(CtaTile{});

  struct SharedStorage {
    alignas(16) uint32_t row[kRows][kTileN];
    alignas(16) uint32_t column[kColumns][kTileM];
  };
  struct Arguments {
    attacca_vector row[kRows];
    attacca_vector column[kColumns];
    attacca_hole_context context;
  };
  using Params = Arguments;

  template <class Shape>
  static constexpr Params to_underlying_arguments(const Shape&, const Arguments& arguments, void*) {
    return arguments;
  }
  template <class Shape>
  static bool can_implement(const Shape&, const Arguments&) {
    return true;
  }
  template <class Shape>
  static size_t get_workspace_size(const Shape&, const Arguments&) {
    return 0;
  }
  template <class Shape>
  static cutlass::Status initialize_workspace(const Shape&, const Arguments&, void*, cudaStream_t,
                                              cutlass::CudaHostAdapter* = nullptr) {
    return cutlass::Status::kSuccess;
  }

  CUTLASS_HOST_DEVICE HoleNode() {}
  // Constructed once, where the kernel begins. The last warp of the producers, which has no other
  // work, prefetches the block's share of the vectors.
  CUTLASS_HOST_DEVICE HoleNode(const Params& params, const SharedStorage& shared)
      : params(&params), shared(const_cast<SharedStorage*>(&shared)) {
#ifdef __CUDA_ARCH__
    if (threadIdx.x / 32 != 3) return;
    const int block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
    const int lane = block * 32 + threadIdx.x % 32;
    const int lanes = gridDim.x * gridDim.y * gridDim.z * 32;
    const int m = Swapped ? params.context.columns : params.context.rows;
    const int n = Swapped ? params.context.rows : params.context.columns;
    for (const attacca_vector& row : params.row) prefetch_vector(row, 0, 0, n, lane, lanes);
    for (const attacca_vector& column : params.column)
      prefetch_vector(column, 0, 0, m, lane, lanes);
#endif
  }

  const Params* params = nullptr;
  SharedStorage* shared = nullptr;

  CUTLASS_DEVICE bool is_producer_load_needed() const {
    return false;
  }
  CUTLASS_DEVICE bool is_C_load_needed() const {
    return false;
  }

  template <class... Args>
  CUTLASS_DEVICE auto get_producer_load_callbacks(const fusion::ProducerLoadArgs<Args...>&) {
    return fusion::EmptyProducerLoadCallbacks{};
  }

  // Coordinates: of this thread's elements, relative to its first one, known at compile time.
  template <int Threads, class Coordinates>
  struct Callbacks : fusion::EmptyConsumerStoreCallbacks {
    const Params* params;
    SharedStorage* shared;
    Coordinates coordinates;
    int thread, tile_m, tile_n;  // the tile's first row and column in the kernel's coordinates
    int offset_m, offset_n;      // of the thread's first element in the tile
    int end_m, end_n, batch;

    CUTLASS_DEVICE Callbacks(const Params* params, SharedStorage* shared, Coordinates coordinates)
        : params(params), shared(shared), coordinates(coordinates) {}

    // Vectors and what the hole loads may be results of the previous kernel.
    CUTLASS_DEVICE void begin() {
      cutlass::arch::wait_on_dependent_grids();
      CUTLASS_PRAGMA_UNROLL
      for (int s = 0; s < kRows; ++s)
        stage<kTileN, Threads>(shared->row[s], params->row[s], thread, tile_n, end_n, batch);
      CUTLASS_PRAGMA_UNROLL
      for (int s = 0; s < kColumns; ++s)
        stage<kTileM, Threads>(shared->column[s], params->column[s], thread, tile_m, end_m, batch);
    }

    CUTLASS_DEVICE bool begin_sync_needed() const {
      bool any = false;
      CUTLASS_PRAGMA_UNROLL
      for (int s = 0; s < kRows; ++s) any |= params->row[s].pointer != nullptr;
      CUTLASS_PRAGMA_UNROLL
      for (int s = 0; s < kColumns; ++s) any |= params->column[s].pointer != nullptr;
      return any;
    }

    // All shared memory is read before the first call, because the compiler moves no load across a
    // call.
    template <class Accumulator, int Size, class... Full>
    CUTLASS_DEVICE Results<Size> call(const cutlass::Array<Accumulator, Size>& values, int epi_v,
                                      int epi_m, int epi_n,
                                      const cutlass::Array<Full, Size>&... full) {
      Results<Size> results;
#ifdef ATTACCA_DEVICE_CODE
      static_assert(Size % 2 == 0);
      auto at = coordinates(cute::_, cute::_, cute::_, epi_m, epi_n);
      HoleArguments pairs[Size / 2];
      CUTLASS_PRAGMA_UNROLL
      for (int i = 0; i < Size; i += 2) {
        const auto where = at(epi_v * Size + i);
        HoleArguments& pair = pairs[i / 2];
        CUTLASS_PRAGMA_UNROLL
        for (int s = 0; s < kRows; ++s) {
          const uint2 two =
              *reinterpret_cast<const uint2*>(&shared->row[s][offset_n + cute::get<1>(where)]);
          pair.row[s][0] = two.x;
          pair.row[s][1] = two.y;
        }
        CUTLASS_PRAGMA_UNROLL
        for (int s = 0; s < kColumns; ++s)
          pair.column[s] = shared->column[s][offset_m + cute::get<0>(where)];
        put_pair(pair.acc[0], values, i);
        int slot = 0;
        (put_pair(pair.full[slot++], full, i), ...);
      }
      CUTLASS_PRAGMA_UNROLL
      for (int i = 0; i < Size; i += 2) {
        const auto where = at(epi_v * Size + i);
        const int m = tile_m + offset_m + cute::get<0>(where);
        const int n = tile_n + offset_n + cute::get<1>(where);
        const attacca_results two =
            call_hole(pairs[i / 2], Swapped ? n : m, Swapped ? m : n, batch, &params->context);
        take_pair(results.first, i, two.word);
        if constexpr (kTwoResults) take_pair(results.second, i, two.word + sizeof(First) / 2);
      }
#endif
      return results;
    }

    template <class Accumulator, int Size, class... Full>
    CUTLASS_DEVICE auto visit(const cutlass::Array<Accumulator, Size>& values, int epi_v, int epi_m,
                              int epi_n, const cutlass::Array<Full, Size>&... full) {
      return call(values, epi_v, epi_m, epi_n, full...).first;
    }
  };

  template <bool ReferenceSrc, class... Args>
  CUTLASS_DEVICE auto get_consumer_store_callbacks(const fusion::ConsumerStoreArgs<Args...>& args) {
    const auto [M, N, K, L] = args.problem_shape_mnkl;
    const auto [m, n, k, l] = args.tile_coord_mnkl;
    constexpr int kThreads = decltype(cute::size(args.tiled_copy))::value;
    static_assert(pairs_neighbour<decltype(args.tCcD)>());
    Callbacks<kThreads, decltype(args.tCcD)> callbacks(params, shared, args.tCcD);
    callbacks.thread = args.thread_idx;
    callbacks.tile_m = int(m) * kTileM;
    callbacks.tile_n = int(n) * kTileN;
    callbacks.offset_m = cute::get<0>(args.residue_cD) - cute::get<0>(args.residue_tCcD);
    callbacks.offset_n = cute::get<1>(args.residue_cD) - cute::get<1>(args.residue_tCcD);
    callbacks.end_m = int(M);
    callbacks.end_n = int(N);
    callbacks.batch = int(l);
    return callbacks;
  }
};

// A node with two results: the first is the kernel's D, the second goes to Store.
template <class Node, class Store, class... Loads>
struct TwoResults : fusion::Sm90VisitorImpl<Loads..., Store, Node> {
  using Base = fusion::Sm90VisitorImpl<Loads..., Store, Node>;
  using Base::Base;

  template <class Impl>
  struct Callbacks : Impl {
    CUTLASS_DEVICE explicit Callbacks(Impl&& impl) : Impl(cute::move(impl)) {}
    using Impl::callbacks_tuple;

    template <class Accumulator, int Size>
    CUTLASS_DEVICE auto visit(const cutlass::Array<Accumulator, Size>& values, int epi_v, int epi_m,
                              int epi_n) {
      constexpr int kLoads = sizeof...(Loads);
      return cute::detail::tapply(
          callbacks_tuple, [&](auto& load) { return load.visit(values, epi_v, epi_m, epi_n); },
          [&](auto&&... full) {
            const auto results =
                cute::get<kLoads + 1>(callbacks_tuple).call(values, epi_v, epi_m, epi_n, full...);
            cute::get<kLoads>(callbacks_tuple).visit(values, epi_v, epi_m, epi_n, results.second);
            return results.first;
          },
          cute::make_seq<kLoads>{});
    }
  };

  template <bool ReferenceSrc, class... Args>
  CUTLASS_DEVICE auto get_consumer_store_callbacks(const fusion::ConsumerStoreArgs<Args...>& args) {
    auto callbacks = Base::template get_consumer_store_callbacks<ReferenceSrc>(args);
    return Callbacks<decltype(callbacks)>(cute::move(callbacks));
  }
};

}  // namespace attacca_cutlass
