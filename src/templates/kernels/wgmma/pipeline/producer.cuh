// The thread that loads this block's share of the tiles of A and B, stage by stage.
#pragma once

#include "common/prefetch.cuh"
#include "wgmma/pipeline/ring.cuh"
#include "wgmma/pipeline/split.cuh"

#ifdef ATTACCA_DEVICE_CODE

namespace attacca_wgmma {

// All tiles of the problem, batch by batch.
struct AllTiles {
  const Params& params;

  __device__ __forceinline__ AllTiles(const Params& params, char*) : params(params) {}

  __device__ __forceinline__ int count() const { return params.tiles; }
  // Values of k that a tile's rows are multiplied by.
  __device__ __forceinline__ int k(const Place&) const { return params.k; }

  __device__ __forceinline__ Place place(const Work& work) const {
    const int matrix = params.order.tiles_m * params.order.tiles_n;
    const int batch = work.tile / matrix;
    const TileIndex at = tile_at(params.order, work.tile - batch * matrix);
    return {(at.m * kClusterM + work.sharer % kClusterM) * kTileM,
            (at.n * kClusterN + work.sharer / kClusterM) * kTileN, batch};
  }
};

// Copies a box to the blocks of the cluster that `mask` names, of which there are BLOCKS_OF_MASK.
template <int BLOCKS_OF_MASK>
__device__ __forceinline__ void share_box(uint32_t to, const Map* map, uint32_t barrier, int inner,
                                          int outer, int batch, int mask) {
  if constexpr (BLOCKS_OF_MASK == 1) {
    copy_box(to, map, barrier, inner, outer, batch);
  } else {
    copy_box_to_cluster(to, map, barrier, inner, outer, batch, static_cast<uint16_t>(mask));
  }
}

// The stage to load, and what it gets.
struct Load {
  const Params& params;
  const Shared& shared;
  const Place& at;
  int stage, k;
  uint32_t full;  // the stage's barrier
  // The first of the blocks that share tiles, and this block's place among them along m and n.
  int first_sharer, sharer_m, sharer_n;

  __device__ __forceinline__ Load(const Params& params, const Shared& shared, const Place& at,
                                  int stage, int k, int block)
      : params(params), shared(shared), at(at), stage(stage), k(k), full(shared.full(stage)) {
    const int sharer = block % kSharers;
    first_sharer = block - sharer;
    sharer_m = sharer % kClusterM;
    sharer_n = sharer / kClusterM;
  }

  // Those of A from the tile's first one to the end of its group; none, or less, if it has no rows.
  __device__ __forceinline__ int rows() const { return end_of_rows(params, at) - at.m; }
};

// The bytes of a stage that TMA copies to each block.
__device__ __forceinline__ int boxed_bytes(const Load& load) {
  if constexpr (!kFitted || kGathered) return kBoxedBytes;
  const int boxes = max(0, (load.rows() + kRowBoxM - 1) / kRowBoxM);
  return kBoxedBytes - kABytes + min(boxes, kRowBoxes) * kRowBoxM * kRowBytes;
}

// Rows of A that follow each other in memory. In their place, others may be copied by warps beside
// the loading one (grouped/gather.cuh).
struct BoxRows {
  static constexpr int kCopyThreads = 0;  // of those warps

  static __device__ __forceinline__ void prefetch_maps(const Params& params) {
    prefetch_map(&params.a);
  }

  // Each block that shares the rows loads its part and copies it to all of these blocks; if
  // `alone`, it loads all rows for itself.
  static __device__ __forceinline__ void load(const Load& load, bool alone) {
    if (alone) {
#pragma unroll
      for (int i = 0; i < kRowBoxes; ++i)
        copy_box(load.shared.a(load.stage) + i * kRowBoxM * kRowBytes, &load.params.a, load.full,
                 load.k, load.at.m + i * kRowBoxM, load.at.batch);
    } else {
      int mask = 0;
#pragma unroll
      for (int i = 0; i < kClusterN; ++i) mask |= 1 << (i * kClusterM);
#pragma unroll
      for (int i = 0; i < kRowBoxes; i += kClusterN) {
        const int first = (i + load.sharer_n) * kRowBoxM;
        if (kFitted && first >= load.rows()) break;
        share_box<kClusterN>(load.shared.a(load.stage) + first * kRowBytes, &load.params.a,
                             load.full, load.k, load.at.m + first, load.at.batch,
                             mask << (load.first_sharer + load.sharer_m));
      }
    }
  }
};

template <class Feed, class Rows, class Tiles>
__device__ __forceinline__ void load_all(const Params& params, const Shared& shared, Tiles tiles,
                                         int first, int step, int block) {
  Schedule schedule(tiles.count(), first, step, block);
  Work work;
  [[maybe_unused]] int early = 0;  // stages whose weights were requested early
  if constexpr (Feed::kEarly) {
    if (Schedule(schedule).take(work))
      early = Feed::load_early(params, shared, tiles.place(work).n,
                               k_range(params.k, split_of(block), work.shared));
    wait_for_previous_kernel();
  }
  Ring ring;
#pragma unroll 1
  while (schedule.take(work)) {
    const Place at = tiles.place(work);
    const KRange range = k_range(tiles.k(at), split_of(block), work.shared);
#pragma unroll 1
    for (int k = range.begin; k < range.end; k += kTileK) {
      wait_for(shared.empty(ring.stage), (ring.round & 1) ^ 1);
      const bool begun = early-- > 0;
      const Load load(params, shared, at, ring.stage, k, block);
      Feed::begin_stage(load, begun);
      Rows::load(load, kSharedTail && work.shared);
      Feed::load_weights(load);
      ring.advance();
    }
  }
  allow_next_kernel();
}

}  // namespace attacca_wgmma

#endif  // ATTACCA_DEVICE_CODE
