// The kernel of GatherRows.
#pragma once

namespace attacca::launch {

// CUDA C++. Text in front of it defines INDEX, the struct of a dtype, and PIECE, what is copied at
// once. A warp copies a row.
inline constexpr const char* kGatherRowsSource = R"cuda(
struct Gather {
  s64 rows, pieces, extent, from_row, from_piece, to_row, index_stride;
};

extern "C" __global__ void __launch_bounds__(256)
attacca_gather_rows(const PIECE* from, const INDEX::Memory* index, PIECE* to, Gather p) {
  PIECE none;
  for (int i = 0; i < sizeof(PIECE); ++i) ((u8*)&none)[i] = 0xff;
  const int lane = threadIdx.x % 32;
  for (s64 row = blockIdx.x * 8ll + threadIdx.x / 32; row < p.rows; row += gridDim.x * 8ll) {
    s64 chosen = INDEX::load(index[row * p.index_stride]);
    if (chosen < 0) chosen += p.extent;
    const bool exists = chosen >= 0 && chosen < p.extent;
    const PIECE* line = from + (exists ? chosen * p.from_row : 0);
    for (s64 i = lane; i < p.pieces; i += 32)
      to[row * p.to_row + i] = exists ? line[i * p.from_piece] : none;
  }
}
)cuda";

// The kernel's last parameter, in pieces.
struct GatherParameters {
  long long rows, pieces, extent, from_row, from_piece, to_row, index_stride;
};

}  // namespace attacca::launch
