// Kernels with one block or warp for each row: reductions over shuffles and shared memory,
// transposes.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cub/block/block_reduce.cuh>
#include <cub/block/block_store.cuh>
#include <cuda/std/mdspan>
#include <cuda_bf16.h>

namespace cg = cooperative_groups;

__device__ __forceinline__ float warp_sum(float value) {
  for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(0xffffffffu, value, step);
  return value;
}

extern "C" __global__ void rms_norm(const __nv_bfloat16* x, const __nv_bfloat16* gain,
                                    __nv_bfloat16* out, int columns, float epsilon) {
  const __nv_bfloat16* row = x + blockIdx.x * columns;
  float squares = 0;
  for (int i = threadIdx.x; i < columns; i += 32) {
    const float value = __bfloat162float(row[i]);
    squares += value * value;
  }
  const float scale = rsqrtf(warp_sum(squares) / columns + epsilon);
  for (int i = threadIdx.x; i < columns; i += 32)
    out[blockIdx.x * columns + i] =
        __float2bfloat16(__bfloat162float(row[i]) * scale * __bfloat162float(gain[i]));
}

// One pass: the row stays in registers.
extern "C" __global__ void softmax(const float* x, float* out, int columns) {
  const int i = threadIdx.x;
  const float value = i < columns ? x[blockIdx.x * columns + i] : -INFINITY;
  float largest = value;
  for (int step = 16; step > 0; step /= 2)
    largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, step));
  const float weight = __expf(value - largest);
  const float sum = warp_sum(weight);
  if (i < columns) out[blockIdx.x * columns + i] = __fdividef(weight, sum);
}

// Refused: the first pass leaves weights in the output, the second reads them.
extern "C" __global__ void two_pass_softmax(const float* x, float* out, int columns) {
  const float* row = x + blockIdx.x * columns;
  float* to = out + blockIdx.x * columns;
  float sum = 0;
  for (int i = threadIdx.x; i < columns; i += 32) {
    const float weight = __expf(row[i]);
    to[i] = weight;
    sum += weight;
  }
  sum = warp_sum(sum);
  for (int i = threadIdx.x; i < columns; i += 32) to[i] = to[i] / sum;
}

extern "C" __global__ void transpose(const float* x, float* out, int rows, int columns) {
  __shared__ float tile[8][9];
  const int column = blockIdx.x * 8 + threadIdx.x, row = blockIdx.y * 8 + threadIdx.y;
  if (row < rows && column < columns) tile[threadIdx.y][threadIdx.x] = x[row * columns + column];
  __syncthreads();
  const int to_column = blockIdx.y * 8 + threadIdx.x, to_row = blockIdx.x * 8 + threadIdx.y;
  if (to_row < columns && to_column < rows)
    out[to_row * rows + to_column] = tile[threadIdx.x][threadIdx.y];
}

extern "C" __global__ void cub_prefix(const float* x, float* out, int columns) {
  using Reduce = cub::BlockReduce<float, 64>;
  using Store = cub::BlockStore<float, 64, 2, cub::BLOCK_STORE_VECTORIZE>;
  __shared__ union {
    typename Reduce::TempStorage reduce;
    typename Store::TempStorage store;
  } storage;
  __shared__ float mean;
  const float* row = x + blockIdx.x * columns;
  float items[2] = {row[threadIdx.x * 2], row[threadIdx.x * 2 + 1]};
  const float sum = Reduce(storage.reduce).Sum(items);
  if (threadIdx.x == 0) mean = sum / columns;
  __syncthreads();
  items[0] -= mean;
  items[1] -= mean;
  Store(storage.store).Store(out + blockIdx.x * columns, items);
}

extern "C" __global__ void cub_striped(const __nv_bfloat16* x, __nv_bfloat16* out, int columns) {
  using Store = cub::BlockStore<__nv_bfloat16, 32, 4, cub::BLOCK_STORE_WARP_TRANSPOSE>;
  __shared__ typename Store::TempStorage storage;
  __nv_bfloat16 items[4];
  for (int i = 0; i < 4; ++i) {
    const int at = threadIdx.x * 4 + i;
    items[i] = at < columns ? x[blockIdx.x * columns + at] : __float2bfloat16(0.0f);
  }
  Store(storage).Store(out + blockIdx.x * columns, items, columns);
}

extern "C" __global__ void cooperative(const float* x, float* out, int columns) {
  const auto block = cg::this_thread_block();
  const auto tile = cg::tiled_partition<8>(block);
  const int row = block.group_index().x * tile.meta_group_size() + tile.meta_group_rank();
  float sum = 0;
  for (int i = tile.thread_rank(); i < columns; i += tile.size()) sum += x[row * columns + i];
  sum = cg::reduce(tile, sum, cg::plus<float>());
  for (int i = tile.thread_rank(); i < columns; i += tile.size())
    out[row * columns + i] = x[row * columns + i] - sum;
}

extern "C" __global__ void spans(const float* x, float* out, int rows, int columns) {
  using Extents = cuda::std::dextents<int, 2>;
  const cuda::std::mdspan<const float, Extents> from(x, rows, columns);
  const cuda::std::mdspan<float, Extents> to(out, rows, columns);
  const int row = blockIdx.y * blockDim.y + threadIdx.y;
  const int column = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= rows || column >= columns) return;
  const float left = column > 0 ? from(row, column - 1) : 0.0f;
  to(row, column) = from(row, column) - left;
}
