// A ring of kPanels panels of A in shared memory, which all warps of a block read.
//
//   begin(panels)  requests the first ones of `panels` panels
//   next()         waits for the next one, requests another, and returns its address
//   leave()        says that this warp has read it
#pragma once

#include "packed/config.cuh"
#include "packed/instructions.cuh"

#ifdef ATTACCA_DEVICE_CODE

namespace attacca_packed_weights {

// The part of the product that this block computes.
struct Part {
  int m, n;         // the block's first element
  int first, last;  // blocks of k
};

#if BOXES

// Panels by TMA. Several warps copy some blocks of k of a panel each, so that none falls behind the
// others. Rows and values of k beyond the end are zeros. When warps come to a panel, they request
// the one that takes the place of the last panel but one, which all warps will have left.
class Panels {
 public:
  __device__ __forceinline__ Panels(const Params& params, const Part& part, uint32_t base)
      : map_(params.panels), part_(part), base_(base), warp_(threadIdx.x / 32) {
    copies_ = warp_ < kCopiers;
    if (threadIdx.x != 0) return;
    prefetch_map(&map_);
    for (int i = 0; i < kPanels; ++i) {
      barrier_init(full(i), kCopiers);
      barrier_init(empty(i), kWarps);
    }
    barrier_init_fence();
  }

  __device__ __forceinline__ void begin(int panels) {
    panels_ = panels;
    __syncthreads();
    if (copies_ && elected())
      for (int i = 0; i < kAhead + 1 && i < panels; ++i) copy(i, i);
  }

  __device__ __forceinline__ uint32_t next() {
    const int wanted = panel_ + kAhead;
    if (copies_ && panel_ > 0 && wanted < panels_ && elected()) {
      const int place = place_ < 2 ? place_ + kAhead : place_ - 2;
      // Wait until all warps have left the panel that was in this place. The first panel in the
      // last place need not wait.
      if (panel_ > 1)
        while (!barrier_passed(empty(place), place_ < 2 ? phase_ ^ 1 : phase_)) {
        }
      copy(place, wanted);
    }
    __syncwarp();
    while (!barrier_passed(full(place_), phase_)) {
    }
    return base_ + place_ * kPanelBytes;
  }

  __device__ __forceinline__ void leave() {
    __syncwarp();
    if (threadIdx.x % 32 == 0) barrier_arrive(empty(place_), kCluster > 1 ? block_in_cluster() : 0);
    ++panel_;
    if (++place_ == kPanels) {
      place_ = 0;
      phase_ ^= 1;
    }
  }

 private:
  static constexpr int kAhead = kPanels - 2, kWarps = kThreads / 32;
  static constexpr int kCopiers = kPanel < kWarps ? kPanel : kWarps, kCopies = kPanel / kCopiers;
  static_assert(kAhead >= 1 && kPanel % kCopiers == 0);

  __device__ __forceinline__ uint32_t full(int place) const {
    return base_ + kBarriersAt + place * 8;
  }
  __device__ __forceinline__ uint32_t empty(int place) const { return full(kPanels + place); }

  // Copies this warp's blocks of k of a panel.
  __device__ __forceinline__ void copy(int place, int panel) const {
    const int first = warp_ * kCopies;
    const uint32_t to = base_ + place * kPanelBytes + first * kBlocksApart;
    const int k = (part_.first + panel * kPanel + first) * kBlock;
    barrier_expect(full(place), kCopies * kBlocksApart);
#pragma unroll
    for (int i = 0; i < kCopies; ++i)
      copy_box(to + i * kBlocksApart, &map_, full(place), k + i * kBlock, part_.m, 0);
  }

  const Map& map_;
  const Part& part_;
  uint32_t base_;
  int panels_ = 0, panel_ = 0;  // panels in all; number of the next one
  int place_ = 0, phase_ = 0;   // of the next panel
  int warp_;
  bool copies_;
};

#else

// Panels by cp.async. All threads copy them, between their copies of weights. A thread that has
// waited for a block of weights has also waited for its part of the panel, which it requested
// before.
class Panels {
 public:
  __device__ __forceinline__ Panels(const Params& params, const Part& part, uint32_t base)
      : base_(base), stride_(params.a_stride) {
    static_assert((kPanels - 1) * (kPanel / kWarpsK) >= kDepth);
    const int thread = threadIdx.x;
    const int first_row = thread / kRowChunks, place = thread % kRowChunks;
    const int first = part.first * kBlock + place * 8;
    bytes_ = (min(part.last * kBlock, params.k) - first) * 2;
    rows_ = params.m - part.m - first_row;
    from_ = params.a + (part.m + first_row) * stride_ + first;
    to_ = base + first_row * kRowBytes + (place ^ first_row) * 16;
  }

  __device__ __forceinline__ void begin(int) {
#pragma unroll
    for (int panel = 0; panel + 1 < kPanels; ++panel) copy(panel * kPanelBytes);
  }

  // All warps have left the previous panel after the barrier; the panel requested here takes its
  // place.
  __device__ __forceinline__ uint32_t next() {
    __syncthreads();
    copy(at_ == 0 ? (kPanels - 1) * kPanelBytes : at_ - kPanelBytes);
    const uint32_t here = base_ + at_;
    at_ = at_ == (kPanels - 1) * kPanelBytes ? 0 : at_ + kPanelBytes;
    return here;
  }

  __device__ __forceinline__ void leave() {}

 private:
  static constexpr int kRowChunks = kRowBytes / 16, kRowsApart = kThreads / kRowChunks;
  static_assert(kThreads % kRowChunks == 0 && kTileM % kRowsApart == 0 && 8 % kRowsApart == 0);

  // A thread copies the same 16 bytes of every kRowsApart-th row. Rows beyond the last are not
  // written, as their sums are not stored; values of k beyond the last are zeros.
  __device__ __forceinline__ void copy(int panel_at) {
    const int bytes = max(0, min(16, bytes_));
    const uint16_t* from = from_;
    const uint32_t to = to_ + panel_at;
#pragma unroll
    for (int row = 0; row < kTileM; row += kRowsApart) {
      if (row < rows_) copy_async((to + row * kRowBytes) ^ ((row & 7) * 16), from, bytes);
      from += kRowsApart * stride_;
    }
    from_ += kPanel * kBlock;
    bytes_ -= kRowBytes;
  }

  uint32_t base_;
  int64_t stride_;
  int at_ = 0;        // of the next panel
  int bytes_, rows_;  // bytes and rows of A from here on
  const uint16_t* from_;
  uint32_t to_;
};

#endif

}  // namespace attacca_packed_weights

#endif  // ATTACCA_DEVICE_CODE
