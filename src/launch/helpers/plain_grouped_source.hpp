// The kernel of PlainGrouped.
#pragma once

namespace attacca::launch {

// CUDA C++; A, B, D and SUM are types. A row's group is the first whose end lies behind the row.
// Sums in double or s64, as those of PlainProduct. SCALE_BLOCK: values of k, and columns of B, that
// share a scale, which is f32; 0: there are no scales.
inline constexpr const char* kPlainGroupedSource = R"cuda(
struct Problem {
  s64 m, n, k, groups;
  s64 a_row, a_column, b_group, b_row, b_column, d_row, d_column, ends;
  s64 u_row, u_column, v_group, v_row, v_column;
};

extern "C" __global__ void __launch_bounds__(256)
attacca_grouped_product(const A::Memory* a, const B::Memory* b, const int* ends, D::Memory* d,
                        const float* u, const float* v, Problem p) {
  const s64 total = p.m * p.n;
  for (s64 at = blockIdx.x * 256ll + threadIdx.x; at < total; at += gridDim.x * 256ll) {
    const s64 row = at / p.n, column = at % p.n;
    s64 group = 0;
    while (group < p.groups && ends[group * p.ends] <= row) ++group;
    SUM sum = 0;
    if (group < p.groups)
      for (s64 k = 0; k < p.k; ++k) {
        SUM term = (SUM)A::load(a[row * p.a_row + k * p.a_column]) *
                   (SUM)B::load(b[group * p.b_group + k * p.b_row + column * p.b_column]);
#if SCALE_BLOCK
        term *= (SUM)u[row * p.u_row + k / SCALE_BLOCK * p.u_column] *
                (SUM)v[group * p.v_group + k / SCALE_BLOCK * p.v_row +
                       column / SCALE_BLOCK * p.v_column];
#endif
        sum += term;
      }
    d[row * p.d_row + column * p.d_column] = D::store(sum);
  }
}
)cuda";

// The kernel's last parameter: extents, then strides.
struct GroupedParameters {
  long long m, n, k, groups;
  long long a_row, a_column, b_group, b_row, b_column, d_row, d_column, ends;
  // Of the scales of A and of B.
  long long u_row = 0, u_column = 0, v_group = 0, v_row = 0, v_column = 0;
};

}  // namespace attacca::launch
