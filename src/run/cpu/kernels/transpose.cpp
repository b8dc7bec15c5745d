// Four by four elements at once; what is left over one by one.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "run/cpu/kernels/transpose.cpp"
#include "hwy/foreach_target.h"
// clang-format off
#include "hwy/highway.h"
// clang-format on

#include "run/cpu/kernels/transpose.hpp"

HWY_BEFORE_NAMESPACE();
namespace attacca::run::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace {

void copy(const uint32_t* in, int64_t in_stride, int64_t rows, int64_t columns, uint32_t* out,
          int64_t out_stride) {
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c) out[r * out_stride + c] = in[r + c * in_stride];
}

#if HWY_TARGET == HWY_SCALAR
constexpr int64_t kSide = 1;
HWY_INLINE void transpose_four(const uint32_t* in, int64_t, uint32_t* out, int64_t) {
  *out = *in;
}
#else
constexpr int64_t kSide = 4;
HWY_INLINE void transpose_four(const uint32_t* in, int64_t in_stride, uint32_t* out,
                               int64_t out_stride) {
  const hn::Full128<uint32_t> d;
  const hn::Full128<uint64_t> pairs;
  const auto c0 = hn::LoadU(d, in), c1 = hn::LoadU(d, in + in_stride);
  const auto c2 = hn::LoadU(d, in + 2 * in_stride), c3 = hn::LoadU(d, in + 3 * in_stride);
  const auto low01 = hn::BitCast(pairs, hn::InterleaveLower(d, c0, c1));
  const auto low23 = hn::BitCast(pairs, hn::InterleaveLower(d, c2, c3));
  const auto high01 = hn::BitCast(pairs, hn::InterleaveUpper(d, c0, c1));
  const auto high23 = hn::BitCast(pairs, hn::InterleaveUpper(d, c2, c3));
  hn::StoreU(hn::BitCast(d, hn::InterleaveLower(pairs, low01, low23)), d, out);
  hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(pairs, low01, low23)), d, out + out_stride);
  hn::StoreU(hn::BitCast(d, hn::InterleaveLower(pairs, high01, high23)), d, out + 2 * out_stride);
  hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(pairs, high01, high23)), d, out + 3 * out_stride);
}
#endif

}  // namespace

void transpose(const uint32_t* in, int64_t in_stride, int64_t rows, int64_t columns, uint32_t* out,
               int64_t out_stride) {
  const int64_t whole_rows = rows / kSide * kSide, whole_columns = columns / kSide * kSide;
  for (int64_t r = 0; r < whole_rows; r += kSide)
    for (int64_t c = 0; c < whole_columns; c += kSide)
      transpose_four(in + r + c * in_stride, in_stride, out + r * out_stride + c, out_stride);
  copy(in + whole_columns * in_stride, in_stride, whole_rows, columns - whole_columns,
       out + whole_columns, out_stride);
  copy(in + whole_rows, in_stride, rows - whole_rows, columns, out + whole_rows * out_stride,
       out_stride);
}

}  // namespace attacca::run::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace attacca::run {

HWY_EXPORT(transpose);

void transpose_block(const uint32_t* in, int64_t in_stride, int64_t rows, int64_t columns,
                     uint32_t* out, int64_t out_stride) {
  HWY_DYNAMIC_DISPATCH(transpose)(in, in_stride, rows, columns, out, out_stride);
}

}  // namespace attacca::run
#endif
