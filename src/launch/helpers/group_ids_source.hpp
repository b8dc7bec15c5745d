// The text of the kernel that numbers groups of rows.
#pragma once

namespace attacca::launch {

// The first group whose end lies behind the row, else the last group. Ends may descend, so a binary
// search would not find it.
inline constexpr char kGroupIdsSource[] = R"cuda(
extern "C" __global__ void __launch_bounds__(256)
attacca_group_ids(const int* ends, int* to, s64 groups, s64 stride, s64 rows) {
  for (s64 row = blockIdx.x * 256ll + threadIdx.x; row < rows; row += gridDim.x * 256ll) {
    s64 group = 0;
    while (group + 1 < groups && ends[group * stride] <= row) ++group;
    to[row] = (int)group;
  }
}
)cuda";

}  // namespace attacca::launch
