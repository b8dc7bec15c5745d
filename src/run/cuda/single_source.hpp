// CUDA C++ of the ops that are kernels of their own: reductions, gather, scatter, scatter_add,
// argsort and arange. The host says the dtypes and the op by macros that stand in front.
#pragma once

namespace attacca::run {

inline constexpr int kSingleAxes = 8;

// Strided axes of a kernel's parameters; `count` of them, the innermost last.
struct SingleAxes {
  int count = 0;
  long long extent[kSingleAxes] = {};
  long long stride[kSingleAxes] = {};        // of the source
  long long other_stride[kSingleAxes] = {};  // of the result
};

inline constexpr const char* kSingleSource = R"cuda(
struct Axes {
  int count;
  s64 extent[8];
  s64 stride[8];
  s64 other_stride[8];
};

__device__ s64 offset_of(const Axes& axes, s64 index, s64* other) {
  s64 at = 0;
  for (int axis = axes.count - 1; axis >= 0; --axis) {
    const s64 coordinate = index % axes.extent[axis];
    index /= axes.extent[axis];
    at += coordinate * axes.stride[axis];
    *other += coordinate * axes.other_stride[axis];
  }
  return at;
}

#ifdef REDUCE
// NaN wins over everything in max, min and amax.
struct Sum {
  static __device__ ACCUMULATOR first() { return 0; }
  static __device__ ACCUMULATOR take(ACCUMULATOR x) { return x; }
  static __device__ ACCUMULATOR join(ACCUMULATOR a, ACCUMULATOR b) { return a + b; }
};
struct Mean : Sum {};
struct ReduceMax {
  static __device__ ACCUMULATOR first() { return LOWEST; }
  static __device__ ACCUMULATOR take(ACCUMULATOR x) { return x; }
  static __device__ ACCUMULATOR join(ACCUMULATOR a, ACCUMULATOR b) {
    return a != a || a > b ? a : b;
  }
};
struct ReduceMin {
  static __device__ ACCUMULATOR first() { return HIGHEST; }
  static __device__ ACCUMULATOR take(ACCUMULATOR x) { return x; }
  static __device__ ACCUMULATOR join(ACCUMULATOR a, ACCUMULATOR b) {
    return a != a || a < b ? a : b;
  }
};
struct AMax : ReduceMax {
  static __device__ ACCUMULATOR first() { return 0; }
  static __device__ ACCUMULATOR take(ACCUMULATOR x) { return x < 0 ? -x : x; }
};

// One block a result; `kept` walks results, `reduced` what each is made of.
extern "C" __global__ void __launch_bounds__(256)
attacca_reduce(const FROM::Memory* from, TO::Memory* to, Axes kept, Axes reduced, s64 results,
               s64 count) {
  __shared__ ACCUMULATOR parts[256];
  for (s64 result = blockIdx.x; result < results; result += gridDim.x) {
    s64 to_at = 0, ignored = 0;
    const FROM::Memory* base = from + offset_of(kept, result, &to_at);
    ACCUMULATOR sum = OP::first();
    for (s64 i = threadIdx.x; i < count; i += 256)
      sum = OP::join(sum, OP::take(FROM::load(base[offset_of(reduced, i, &ignored)])));
    parts[threadIdx.x] = sum;
    __syncthreads();
    for (int half = 128; half > 0; half /= 2) {
      if (threadIdx.x < half)
        parts[threadIdx.x] = OP::join(parts[threadIdx.x], parts[threadIdx.x + half]);
      __syncthreads();
    }
    if (threadIdx.x == 0) to[to_at] = TO::store(MEAN ? parts[0] / count : parts[0]);
    __syncthreads();
  }
}
#endif

#ifdef GATHER
// to[outer, i, inner] = from[outer, index[i], inner]; an index outside the axis yields no number.
extern "C" __global__ void __launch_bounds__(256)
attacca_gather(const ELEMENT* from, const INDEX::Memory* index, ELEMENT* to, s64 outer, s64 extent,
               s64 indices, s64 inner) {
  const s64 total = outer * indices * inner;
  for (s64 at = blockIdx.x * 256ll + threadIdx.x; at < total; at += gridDim.x * 256ll) {
    const s64 column = at % inner, row = at / inner % indices, block = at / inner / indices;
    s64 chosen = INDEX::load(index[row]);
    if (chosen < 0) chosen += extent;
    if (chosen >= 0 && chosen < extent) to[at] = from[(block * extent + chosen) * inner + column];
    else for (int i = 0; i < sizeof(ELEMENT); ++i) ((u8*)(to + at))[i] = 0xff;
  }
}
#endif

#ifdef SCATTER
// last[row]: 1 + the last i for which index[i] is the row, or the 0 that was there before. An index
// outside the axis is left out.
extern "C" __global__ void __launch_bounds__(256)
attacca_scatter_last(const INDEX::Memory* index, unsigned long long* last, s64 rows, s64 indices) {
  for (s64 i = blockIdx.x * 256ll + threadIdx.x; i < indices; i += gridDim.x * 256ll) {
    s64 row = INDEX::load(index[i]);
    if (row < 0) row += rows;
    if (row >= 0 && row < rows) atomicMax(last + row, (unsigned long long)i + 1);
  }
}

// to[row, inner] = updates[last[row] - 1, inner], or from[row, inner] if there is none.
extern "C" __global__ void __launch_bounds__(256)
attacca_scatter(const ELEMENT* from, const ELEMENT* updates, const unsigned long long* last,
                ELEMENT* to, s64 rows, s64 inner) {
  for (s64 at = blockIdx.x * 256ll + threadIdx.x; at < rows * inner; at += gridDim.x * 256ll) {
    const s64 source = last[at / inner];
    to[at] = source == 0 ? from[at] : updates[(source - 1) * inner + at % inner];
  }
}
#endif

#ifdef SCATTER_ADD
__device__ s64 row_of(const INDEX::Memory* index, s64 i, s64 rows) {
  const s64 row = INDEX::load(index[i]);
  return row < 0 ? row + rows : row;
}

// Of those i for which index[i] is the row, in any order: heads[row] is the first and chain[i] the
// next one; -1: none. heads is -1 before.
extern "C" __global__ void __launch_bounds__(256)
attacca_scatter_chains(const INDEX::Memory* index, s64* heads, s64* chain, s64 rows, s64 indices) {
  for (s64 i = blockIdx.x * 256ll + threadIdx.x; i < indices; i += gridDim.x * 256ll) {
    const s64 row = row_of(index, i, rows);
    if (row >= 0 && row < rows)
      chain[i] = (s64)atomicExch((unsigned long long*)heads + row, (unsigned long long)i);
  }
}

// links[row]: the first i for which index[i] is the row; links[rows + i]: the next such i after i.
// -1: none. An index outside the axis is in no list. Only the next `near` elements of the index are
// looked through, then the row's chain; `near` may be all elements, then there are no chains.
extern "C" __global__ void __launch_bounds__(256)
attacca_scatter_links(const INDEX::Memory* index, const s64* heads, const s64* chain, s64* links,
                      s64 rows, s64 indices, s64 near) {
  for (s64 at = blockIdx.x * 256ll + threadIdx.x; at < rows + indices; at += gridDim.x * 256ll) {
    const s64 row = at < rows ? at : row_of(index, at - rows, rows);
    const s64 first = at < rows ? 0 : at - rows + 1;
    const s64 end = near < indices - first ? first + near : indices;
    s64 next = first;
    while (next < end && row_of(index, next, rows) != row) ++next;
    if (next == end) {
      next = -1;
      if (end < indices && row >= 0 && row < rows)
        for (s64 i = heads[row]; i >= 0; i = chain[i])
          if (i >= end && (next < 0 || i < next)) next = i;
    }
    links[at] = next;
  }
}

// Neighbours of a row, which are loaded and stored at once.
struct alignas(WIDTH * sizeof(ELEMENT::Memory)) Piece {
  ELEMENT::Memory element[WIDTH];
};

// to[row, inner] = from[row, inner] and the updates of the row's list, added one by one. `inner` is
// counted in pieces.
extern "C" __global__ void __launch_bounds__(256)
attacca_scatter_add(const Piece* from, const Piece* updates, const s64* links, Piece* to, s64 rows,
                    s64 inner) {
  for (s64 at = blockIdx.x * 256ll + threadIdx.x; at < rows * inner; at += gridDim.x * 256ll) {
    const s64 row = at / inner, column = at - row * inner;
    const Piece base = from[at];
    SUM sum[WIDTH];
    for (int v = 0; v < WIDTH; ++v) sum[v] = ELEMENT::load(base.element[v]);
    for (s64 i = links[row]; i >= 0; i = links[rows + i]) {
      const Piece update = updates[i * inner + column];
      for (int v = 0; v < WIDTH; ++v)
        sum[v] = ROUND((SUM)(sum[v] + (SUM)ELEMENT::load(update.element[v])));
    }
    Piece result;
    for (int v = 0; v < WIDTH; ++v) result.element[v] = ELEMENT::store(sum[v]);
    to[at] = result;
  }
}
#endif

#ifdef ARGSORT
// Each element counts those of its line that come before it: smaller ones, NaN being the largest,
// and equal ones at earlier places.
extern "C" __global__ void __launch_bounds__(256)
attacca_argsort(const FROM::Memory* from, s64* to, Axes lines, s64 total, s64 extent, s64 stride,
                s64 to_stride) {
  for (s64 at = blockIdx.x * 256ll + threadIdx.x; at < total; at += gridDim.x * 256ll) {
    const s64 place = at % extent;
    s64 to_at = 0, rank = 0;
    const FROM::Memory* line = from + offset_of(lines, at / extent, &to_at);
    const auto x = FROM::load(line[place * stride]);
    for (s64 other = 0; other < extent; ++other) {
      const auto y = FROM::load(line[other * stride]);
      const bool less = y < x || (x != x && y == y), greater = x < y || (y != y && x == x);
      rank += less || (!greater && other < place);
    }
    to[to_at + rank * to_stride] = place;
  }
}
#endif

#ifdef ARANGE
extern "C" __global__ void __launch_bounds__(256)
attacca_arange(s64* to, s64 begin, s64 count) {
  for (s64 at = blockIdx.x * 256ll + threadIdx.x; at < count; at += gridDim.x * 256ll)
    to[at] = begin + at;
}
#endif
)cuda";

}  // namespace attacca::run
