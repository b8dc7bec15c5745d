// The epilogue for operands and results of any strides: each warp writes its accumulators to shared
// memory, slice by slice, and reads them back as whole chunks of rows.
#pragma once

#include "wgmma/pipeline/consumer.cuh"

#ifdef ATTACCA_DEVICE_CODE

namespace attacca_wgmma {

// The place of a slice's element. Rows of 32 elements are permuted and other rows are padded, so
// that writing them causes no bank conflicts.
__device__ __forceinline__ int slice_offset(int row, int column) {
  if constexpr (kSlicePitch != 32) return row * kSlicePitch + column;
  return row * kSlicePitch + (column ^ ((row & 3) * 8 + (row & 1) * 4));
}

// Writes a slice of alternate columns: even values are of one set, odd values of the other.
__device__ __forceinline__ void keep_alternate(const Accumulators& sum, int slice, int odd_first,
                                               int lane, uint32_t* own) {
  uint32_t* const to[2] = {own + odd_first * kSliceValues, own + (1 - odd_first) * kSliceValues};
#pragma unroll
  for (int i = 0; i < kGroupParts * kSlices; ++i) {
    if (i != slice) continue;
#pragma unroll
    for (int part = 0; part < 2 * kSliceN / 8; ++part) {
#pragma unroll
      for (int v = 0; v < 4; ++v)
        to[v % 2][slice_offset(lane / 4 + v / 2 * 8, part * 4 + lane % 4)] = raw_bits(
            sum.of_instruction[i / kSlices][(i % kSlices * (2 * kSliceN / 8) + part) * 4 + v]);
    }
  }
}

// Writes a slice of paired sets. Of four values, the first two are of the first set, the last two
// of the second set, in the same column.
__device__ __forceinline__ void keep_paired(const Accumulators& sum, int slice, int lane,
                                            uint32_t* own) {
#pragma unroll
  for (int i = 0; i < kSlices; ++i) {
    if (i != slice) continue;
#pragma unroll
    for (int part = 0; part < kSliceM / 8; ++part)
#pragma unroll
      for (int v = 0; v < 4; ++v)
        own[v / 2 * kSliceValues + slice_offset(part * 8 + lane % 4 * 2 + v % 2, lane / 4)] =
            raw_bits(sum.of_instruction[0][(i * (kSliceM / 8) + part) * 4 + v]);
  }
}

// Swapped: the column that row `low` of 8 of a warp's fragment is, or (`half`) the row 8 below it.
__device__ __forceinline__ int fragment_column(int low, int half) {
  return kColumnPairs ? 2 * low + half : low + half * 8;
}

// Writes a slice. Values i and i + 1 of a set are neighbours along wgmma's N; i + 2 and i + 3 lie 8
// rows below them, i + 4 lies 8 columns further on (PTX ISA, accumulators of wgmma).
__device__ __forceinline__ void keep_slice(const Accumulators& sum, int slice, int lane,
                                           uint32_t* own) {
  constexpr int kSliceParts = kSwapped ? kSliceM / 8 : kSliceN / 8;
#pragma unroll
  for (int i = 0; i < kGroupParts * kSlices; ++i) {
    // Registers cannot be indexed at run time, so each slice has its own code.
    if (i != slice) continue;
#pragma unroll
    for (int s = 0; s < kSets; ++s) {
      uint32_t* to = own + s * kSliceValues;
#pragma unroll
      for (int part = 0; part < kSliceParts; ++part) {
        uint32_t four[4];
#pragma unroll
        for (int v = 0; v < 4; ++v)
          four[v] = raw_bits(sum.value(i / kSlices, s, (i % kSlices * kSliceParts + part) * 4 + v));
        const int low = lane / 4, pair = part * 8 + lane % 4 * 2;
        if constexpr (kSwapped) {
#pragma unroll
          for (int v = 0; v < 4; ++v)
            to[slice_offset(pair + v % 2, fragment_column(low, v / 2))] = four[v];
        } else {
          *reinterpret_cast<uint2*>(to + slice_offset(low, pair)) = make_uint2(four[0], four[1]);
          *reinterpret_cast<uint2*>(to + slice_offset(low + 8, pair)) =
              make_uint2(four[2], four[3]);
        }
      }
    }
  }
}

__device__ __forceinline__ void load_values(const uint32_t* own, int row, int column,
                                            uint32_t (&to)[kChunk]) {
#pragma unroll
  for (int i = 0; i < kChunk; i += 4) {
    const uint4 four = *reinterpret_cast<const uint4*>(own + slice_offset(row, column + i));
    to[i] = four.x;
    to[i + 1] = four.y;
    to[i + 2] = four.z;
    to[i + 3] = four.w;
  }
}

// `at`: the slice's first element.
__device__ __forceinline__ void finish_slice(const Params& params, const Place& at, int lane,
                                             const uint32_t* own, Largest& largest) {
  constexpr int kRowChunks = kSliceN / kChunk;
#pragma unroll 1
  for (int chunk = lane; chunk < kSliceM * kRowChunks; chunk += 32) {
    const int line = chunk / kRowChunks, place = chunk % kRowChunks * kChunk;
    const int row = at.m + line, column = at.n + place;
    const int valid = row < end_of_rows(params, at) ? min(kChunk, params.n - column) : 0;
    if (valid <= 0) continue;
    ChunkInputs inputs;
    load_inputs(params.operands, operand_batch(params, at), row, column, valid, inputs);
    ChunkAccumulators accumulators;
#pragma unroll
    for (int s = 0; s < kSets; ++s)
      load_values(own + s * kSliceValues, line, place, accumulators.set[s]);
    finish_chunk(params.operands, operand_batch(params, at), row, column, valid, inputs,
                 accumulators, largest);
  }
}

// finish_slice() where by_whole_chunks() holds: without branches between a thread's chunks, their
// latencies overlap. Rows behind the last one are computed with its operands, and not stored. OWN:
// a thread's chunks.
template <int OWN>
__device__ __forceinline__ void finish_whole_slice(const Params& params, const Place& at, int lane,
                                                   const uint32_t* own, Largest& largest) {
  constexpr int kRowChunks = kSliceN / kChunk, kLines = 32 / kRowChunks;  // at once
  const EpilogueOperands& operands = params.operands;
  const int batch = operand_batch(params, at), end = end_of_rows(params, at);
  const int line = lane / kRowChunks, place = lane % kRowChunks * kChunk, column = at.n + place;
  if (column >= params.n) return;
  const auto row_of = [&](int i) { return at.m + line + i * kLines; };
  ChunkInputs inputs[OWN];
#pragma unroll
  for (int i = 0; i < OWN; ++i)
    load_inputs<true>(operands, batch, min(row_of(i), end - 1), column, kChunk, inputs[i]);
  Chunk<kResultBits[0]> first[OWN];
  Chunk<kResultBits[1]> second[OWN];
#pragma unroll
  for (int i = 0; i < OWN; ++i) {
    ChunkAccumulators accumulators;
#pragma unroll
    for (int s = 0; s < kSets; ++s)
      load_values(own + s * kSliceValues, line + i * kLines, place, accumulators.set[s]);
#pragma unroll
    for (int pair = 0; pair < kChunk / 2; ++pair) {
      const attacca_results results =
          call_hole(pair_arguments(inputs[i], pair, accumulators), hole_row(params, at, row_of(i)),
                    column + 2 * pair, batch, &operands.context);
      keep_pair<0>(results.word, pair, first[i]);
      keep_pair<1>(results.word, pair, second[i]);
      if constexpr (kMaxima > 0)
        if (row_of(i) < end) largest.bits = max(largest.bits, results.word[kMaximumWord]);
    }
  }
#pragma unroll
  for (int i = 0; i < OWN; ++i) {
    if (row_of(i) >= end) continue;
    store_result<0, true>(operands, batch, row_of(i), column, kChunk, first[i]);
    store_result<1, true>(operands, batch, row_of(i), column, kChunk, second[i]);
  }
}

// `weights`: of the kernel's parameters.
template <class WeightsParams>
__device__ __forceinline__ void finish_fitted_slice(const Params& params,
                                                    const WeightsParams& weights, const Place& at,
                                                    int lane, const uint32_t* own,
                                                    Largest& largest) {
  if (weights.whole) {
    finish_whole_slice<kSliceM * kSliceN / kChunk / 32>(params, at, lane, own, largest);
  } else {
    finish_slice(params, at, lane, own, largest);
  }
}

struct StagedFinish {
  // With few rows, the full operands of all tiles of a block are small.
  static constexpr bool kPrefetchFulls = kSwapped;

  const Consumer& consumer;

  __device__ __forceinline__ explicit StagedFinish(const Consumer& consumer) : consumer(consumer) {}

  static __device__ __forceinline__ void prefetch_maps(const Params&) {}
  __device__ __forceinline__ void begin(const Place&) {}
  __device__ __forceinline__ void end() const {}

  // Finishes this warp's accumulators of the tile, slice by slice.
  __device__ __forceinline__ void finish(const Place& at, const Accumulators& sum,
                                         Largest& largest) {
    const Params& params = consumer.params;
    const int first_row = consumer.first_row, lane = consumer.lane;
    uint32_t* own = reinterpret_cast<uint32_t*>(consumer.own);
#pragma unroll 1
    for (int slice = 0; slice < kGroupParts * kSlices; ++slice) {
      const int row = first_row + slice / kSlices * kPartSide;
      Place part = kSwapped ? Place{at.m + slice % kSlices * kSliceM, at.n + row, at.batch}
                            : Place{at.m + row, at.n + slice % kSlices * kSliceN, at.batch};
      keep_group(at, part);
      if constexpr (kGrouped)
        if (part.m >= end_of_rows(params, part)) continue;
      if constexpr (kAlternate) {
        keep_alternate(sum, slice, params.odd_first, lane, own);
      } else if constexpr (kPaired) {
        keep_paired(sum, slice, lane, own);
      } else {
        keep_slice(sum, slice, lane, own);
      }
      __syncwarp();
      if constexpr (kFitted) {
        finish_fitted_slice(params, params.weights, part, lane, own, largest);
      } else {
        finish_slice(params, part, lane, own, largest);
      }
      __syncwarp();
    }
  }
};

}  // namespace attacca_wgmma

#endif  // ATTACCA_DEVICE_CODE
