// Split tiles, for few tiles and long K: each block of a cluster multiplies a range of k of the
// same tile. With a shared tail, only the last tile is split, if at most half as many tiles are
// left as there are blocks; before it the blocks have neighbouring tiles. A warp sends its partial
// sums to the warp of the same number in one of the blocks. That warp adds them in the order of the
// blocks, so that the result does not depend on timing, and finishes.
#pragma once

#include "wgmma/tiles.cuh"

#ifdef ATTACCA_DEVICE_CODE

namespace attacca_wgmma {

struct KRange {
  int begin, end;
  __device__ __forceinline__ int tiles() const { return (end - begin + kTileK - 1) / kTileK; }
};

// The number of the range of k that a block multiplies of a split tile.
__device__ __forceinline__ int split_of(int block) {
  return kSharedTail ? block : block / kSharers;
}

// The next tile of a block.
struct Work {
  int tile;     // number among the clusters' tiles
  int sharer;   // whose part of the tile it is
  bool shared;  // split: the cluster's other blocks multiply other ranges of k
};

// The tiles of a cluster: every step-th from the first on and, perhaps, a part of a shared tail.
struct Schedule {
  int next, step, own, sharer, last;

  __device__ __forceinline__ Schedule(int tiles, int first, int step, int block)
      : next(first), step(step), own(tiles), sharer(block % kSharers), last(-1) {
    if constexpr (kSharedTail) {
      const int rest = tiles % step;
      if (kSharers * rest > step) return;
      own = tiles - rest;
      if (first < kSharers * rest) last = kSharers * own + first;
    }
  }

  __device__ __forceinline__ bool take(Work& work) {
    if (next < own) {
      work = {next, sharer, kSplits > 1 && !kSharedTail};
      next += step;
      return true;
    }
    if constexpr (kSharedTail) {
      if (last < 0) return false;
      work = {last / kSharers, last % kSharers, true};
      last = -1;
      return true;
    }
    return false;
  }
};

__device__ __forceinline__ KRange k_range(int k, int split, bool shared) {
  if (!shared) return {0, k};
  const int tiles = (k + kTileK - 1) / kTileK;
  const int share = (tiles + kSplits - 1) / kSplits * kTileK;
  return {min(split * share, k), min((split + 1) * share, k)};
}

struct PartialSums {
  char* memory;      // in the block that finishes: places for what the others send, in their order
  uint32_t address;  // of `memory`; the same in every block
  uint32_t arrived;  // barrier: all partial sums have arrived
  uint32_t read;     // barrier in the blocks that send: what they sent has been read
  int split, first_block, lane;  // first_block: that of split 0
  uint32_t tiles = 0;

  __device__ __forceinline__ PartialSums(char* all, uint32_t arrived, uint32_t read, int block,
                                         int warp, int lane)
      : memory(all + warp / kSplits * (kSplits - 1) * kPartialBytes),
        address(shared_address(memory)),
        arrived(arrived),
        read(read),
        split(split_of(block)),
        first_block(kSharedTail ? 0 : block % kSharers),
        lane(lane),
        owner_(warp % kSplits) {}

  __device__ __forceinline__ bool finishes() const { return kSplits == 1 || split == owner_; }

  __device__ __forceinline__ void send(const Accumulators& sum) {
    if (tiles > 0) wait_for(read, (tiles - 1) & 1);
    ++tiles;
    const int place = split - (split > owner_);
    const uint32_t to = address + place * kPartialBytes + lane * 16;
#pragma unroll
    for (int part = 0; part < kInstructions; ++part)
#pragma unroll
      for (int i = 0; i < kInstructionN / 2; i += 4) {
        uint32_t four[4];
#pragma unroll
        for (int v = 0; v < 4; ++v) four[v] = raw_bits(sum.of_instruction[part][i + v]);
        send_four(to + (part * kInstructionN / 8 + i / 4) * 512, arrived, block_of(owner_), four);
      }
  }

  __device__ __forceinline__ void add_to(Accumulators& sum) {
    if (lane == 0) barrier_expect(arrived, (kSplits - 1) * kPartialBytes);
    while (!cluster_barrier_passed(arrived, tiles & 1)) {
    }
    ++tiles;
#pragma unroll
    for (int place = 0; place < kSplits - 1; ++place)
#pragma unroll
      for (int part = 0; part < kInstructions; ++part)
#pragma unroll
        for (int i = 0; i < kInstructionN / 2; i += 4) {
          struct alignas(16) {
            Sum value[4];
          } four;
          four = *reinterpret_cast<const decltype(four)*>(memory + place * kPartialBytes +
                                                          (part * kInstructionN / 8 + i / 4) * 512 +
                                                          lane * 16);
#pragma unroll
          for (int v = 0; v < 4; ++v) sum.of_instruction[part][i + v] += four.value[v];
        }
    __syncwarp();
    if (lane < kSplits && lane != split) barrier_arrive(read, block_of(lane));
  }

 private:
  __device__ __forceinline__ int block_of(int split) const {
    return first_block + split * (kSharedTail ? 1 : kSharers);
  }

  int owner_;  // the split that finishes this warp's rows
};

}  // namespace attacca_wgmma

#endif  // ATTACCA_DEVICE_CODE
