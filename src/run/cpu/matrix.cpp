#include "run/cpu/matrix.hpp"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <new>

#include "ir/interpret/mxfp4.hpp"
#include "run/cpu/kernels/kernel.hpp"
#include "run/cpu/kernels/transpose.hpp"
#include "support/check.hpp"
#include "support/memory.hpp"

namespace attacca::run {
namespace {

using ir::DType;

// Rows and columns of a block: while it is copied, the cache lines of a column-major source stay in
// cache.
constexpr int64_t kBlock = 64;

template <class T>
void gather_rows(const MatrixView& view, std::byte* to) {
  const T* in = reinterpret_cast<const T*>(view.data);
  T* out = reinterpret_cast<T*>(to);
  for (int64_t r0 = 0; r0 < view.rows; r0 += kBlock)
    for (int64_t c0 = 0; c0 < view.columns; c0 += kBlock)
      for (int64_t r = r0; r < std::min(r0 + kBlock, view.rows); ++r)
        for (int64_t c = c0; c < std::min(c0 + kBlock, view.columns); ++c)
          out[r * view.columns + c] = in[r * view.row_stride + c * view.column_stride];
}

// Copies a column-major source.
void transpose_words(const MatrixView& view, std::byte* to) {
  const auto* in = reinterpret_cast<const uint32_t*>(view.data);
  auto* out = reinterpret_cast<uint32_t*>(to);
  for (int64_t r = 0; r < view.rows; r += kBlock)
    for (int64_t c = 0; c < view.columns; c += kBlock)
      transpose_block(in + r + c * view.column_stride, view.column_stride,
                      std::min(kBlock, view.rows - r), std::min(kBlock, view.columns - c),
                      out + r * view.columns + c, view.columns);
}

// Row-major, the dtype kept.
void copy_elements(const MatrixView& view, std::byte* to) {
  const int64_t width = ir::size_of(view.dtype);
  if (view.column_stride == 1) {
    const auto bytes = static_cast<size_t>(view.columns * width);
    for (int64_t r = 0; r < view.rows; ++r) std::memcpy(to + r * bytes, view.at(r, 0), bytes);
    return;
  }
  switch (width) {
    case 1:
      return gather_rows<uint8_t>(view, to);
    case 2:
      return gather_rows<uint16_t>(view, to);
    case 4:
      if (view.row_stride == 1) return transpose_words(view, to);
      return gather_rows<uint32_t>(view, to);
    default:
      return gather_rows<uint64_t>(view, to);
  }
}

// Contiguous elements to f32.
void widen(DType from, const std::byte* in, size_t count, float* out) {
  load_kernel(from)({.out = out, .in = {in}, .count = count});
  if (lane_of(from) == Lane::S32) int_to_float_kernel()({.out = out, .in = {out}, .count = count});
}

void convert(DType from, DType to, const std::byte* in, size_t count, std::byte* out) {
  if (from == to) {
    std::memcpy(out, in, count * ir::size_of(to));
  } else if (to == DType::F32) {
    widen(from, in, count, reinterpret_cast<float*>(out));
  } else {
    ATTACCA_CHECK(to == DType::F64, "no conversion to this dtype");
    constexpr size_t kStep = 256;
    float lanes[kStep];
    auto* doubles = reinterpret_cast<double*>(out);
    for (size_t i = 0; i < count; i += kStep) {
      const size_t some = std::min(kStep, count - i);
      widen(from, in + i * ir::size_of(from), some, lanes);
      std::copy(lanes, lanes + some, doubles + i);
    }
  }
}

}  // namespace

void copy_dense(const MatrixView& view, DType target, std::byte* to) {
  if (view.rows == 0 || view.columns == 0) return;
  if (view.dtype == target) return copy_elements(view, to);
  const auto count = static_cast<size_t>(view.columns);
  if (view.column_stride == 1) {
    for (int64_t r = 0; r < view.rows; ++r)
      convert(view.dtype, target, view.at(r, 0), count, to + r * count * ir::size_of(target));
    return;
  }
  AlignedBuffer rows;
  rows.reserve(static_cast<size_t>(view.rows) * count * ir::size_of(view.dtype));
  copy_elements(view, rows.data());
  convert(view.dtype, target, rows.data(), view.rows * count, to);
}

namespace {

// `count` weights in MXFP4, a multiple of 32, as bf16.
void widen_mxfp4(const std::byte* codes, const std::byte* scales, int64_t count, std::byte* to) {
  auto* out = reinterpret_cast<uint16_t*>(to);
  for (int64_t block = 0; block < count / ir::kMxFp4Block; ++block) {
    uint16_t values[16];  // of each code; bf16 is the upper half of f32, and nothing is lost
    for (int64_t code = 0; code < 16; ++code) {
      const auto value =
          static_cast<float>(ir::mxfp4_value(code, static_cast<int64_t>(scales[block])));
      values[code] = static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16);
    }
    for (int64_t i = 0; i < ir::kMxFp4Block / 2; ++i) {
      const auto byte = static_cast<uint8_t>(*codes++);
      *out++ = values[byte & 15];
      *out++ = values[byte >> 4];
    }
  }
}

}  // namespace

void widen_codes(const ir::CodeFormat& format, const ir::CodeMemory& from, int64_t count,
                 std::byte* to) {
  if (format.mxfp4) return widen_mxfp4(from.codes, from.scales, count, to);
  ir::decode(format, from, count, to);
}

void AlignedBuffer::Free::operator()(std::byte* p) const {
  std::free(p);
}

std::byte* AlignedBuffer::reserve(size_t bytes) {
  if (bytes > capacity_ || !data_) {
    data_.reset();
    capacity_ = 0;
    const size_t rounded = (bytes / 64 + 1) * 64;
    data_.reset(allocate_aligned(rounded));
    if (!data_) throw std::bad_alloc();
    capacity_ = rounded;
  }
  return data_.get();
}

}  // namespace attacca::run
