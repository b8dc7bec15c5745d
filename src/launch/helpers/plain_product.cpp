#include "launch/helpers/plain_product.hpp"

#include <algorithm>

#include "fmt/format.h"

#include "launch/helpers/device_types.hpp"

namespace attacca::launch {
namespace {

constexpr int64_t kTile = 16;
constexpr int64_t kMostGrid = 65535;

// Sums in double or s64: exact for integers, and more precise than f32 for floats.
constexpr const char* kSource = R"cuda(
struct Problem {
  s64 m, n, k, batch;
  s64 a_row, a_column, a_batch, b_row, b_column, b_batch, d_row, d_column, d_batch;
};

extern "C" __global__ void __launch_bounds__(256)
attacca_product(const A::Memory* a, const B::Memory* b, D::Memory* d, Problem p) {
  __shared__ SUM left[16][17], right[16][17];
  const int x = threadIdx.x % 16, y = threadIdx.x / 16;
  for (s64 batch = blockIdx.z; batch < p.batch; batch += gridDim.z)
    for (s64 row0 = blockIdx.y * 16ll; row0 < p.m; row0 += gridDim.y * 16ll)
      for (s64 column0 = blockIdx.x * 16ll; column0 < p.n; column0 += gridDim.x * 16ll) {
        SUM sum = 0;
        for (s64 k0 = 0; k0 < p.k; k0 += 16) {
          const s64 row = row0 + y, column = column0 + x;
          left[y][x] = row < p.m && k0 + x < p.k
              ? (SUM)A::load(a[batch * p.a_batch + row * p.a_row + (k0 + x) * p.a_column]) : 0;
          right[y][x] = column < p.n && k0 + y < p.k
              ? (SUM)B::load(b[batch * p.b_batch + (k0 + y) * p.b_row + column * p.b_column]) : 0;
          __syncthreads();
          for (int i = 0; i < 16; ++i) sum += left[y][i] * right[i][x];
          __syncthreads();
        }
        if (row0 + y < p.m && column0 + x < p.n)
          d[batch * p.d_batch + (row0 + y) * p.d_row + (column0 + x) * p.d_column] = D::store(sum);
      }
}
)cuda";

struct Parameters {
  long long m, n, k, batch;
  long long a_row, a_column, a_batch, b_row, b_column, b_batch, d_row, d_column, d_batch;
};

uint32_t blocks(int64_t extent, int64_t tile) {
  return static_cast<uint32_t>(std::clamp<int64_t>((extent + tile - 1) / tile, 1, kMostGrid));
}

}  // namespace

Result<PlainProduct> PlainProduct::make(const std::shared_ptr<Toolbox>& toolbox,
                                        const Multiplication& problem) {
  ATTACCA_TRY(const DeviceType a, device_type(problem.a.dtype));
  ATTACCA_TRY(const DeviceType b, device_type(problem.b.dtype));
  ATTACCA_TRY(const DeviceType d, device_type(problem.d.dtype));
  if (ir::is_fp8(problem.d.dtype))
    return fail("no kernel stores an 8-bit float product", {}, "let the matmul give f16 or bf16");
  const std::string source =
      fmt::format("typedef {} A;\ntypedef {} B;\ntypedef {} D;\ntypedef {} SUM;\n{}", a.name,
                  b.name, d.name, a.real || b.real ? "double" : "s64", kSource);
  ATTACCA_TRY(SourceKernel kernel, SourceKernel::make(toolbox, "attacca_product", source, true));
  return PlainProduct(std::move(kernel), problem);
}

Status PlainProduct::launch(const void* a, const void* b, void* d, gpu::StreamHandle stream) const {
  const Multiplication& p = problem_;
  const Parameters numbers{p.m,
                           p.n,
                           p.k,
                           p.batch,
                           p.a.row_stride,
                           p.a.column_stride,
                           p.a.batch_stride,
                           p.b.row_stride,
                           p.b.column_stride,
                           p.b.batch_stride,
                           p.d.row_stride,
                           p.d.column_stride,
                           p.d.batch_stride};
  return kernel_.launch({blocks(p.n, kTile), blocks(p.m, kTile), blocks(p.batch, 1)}, stream, a, b,
                        d, numbers);
}

}  // namespace attacca::launch
