// The matrices of a product in memory, of any dtype and strides, and their dense copies in the type
// that the multiplier takes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "ir/graph/dtype.hpp"
#include "ir/interpret/codes.hpp"

namespace attacca::run {

struct MatrixView {
  const std::byte* data = nullptr;  // element (0, 0)
  ir::DType dtype = ir::DType::F32;
  int64_t rows = 0, columns = 0;
  int64_t row_stride = 0, column_stride = 0;  // in elements, of any sign

  const std::byte* at(int64_t row, int64_t column) const {
    return data + (row * row_stride + column * column_stride) * ir::size_of(dtype);
  }
  MatrixView part(int64_t row0, int64_t row1, int64_t column0, int64_t column1) const {
    return {at(row0, column0), dtype, row1 - row0, column1 - column0, row_stride, column_stride};
  }
  MatrixView transposed() const { return {data, dtype, columns, rows, column_stride, row_stride}; }
};

// Writes the view row-major to `to` as `target`: f32 from any narrower float or s8, u8; f64 from
// any float; or the view's own dtype.
void copy_dense(const MatrixView& view, ir::DType target, std::byte* to);

// `count` weights, in whole blocks, in the format's dtype.
void widen_codes(const ir::CodeFormat& format, const ir::CodeMemory& from, int64_t count,
                 std::byte* to);

// 64-byte aligned memory that grows and is never zeroed. Throws std::bad_alloc.
class AlignedBuffer {
 public:
  std::byte* reserve(size_t bytes);
  std::byte* data() const { return data_.get(); }

 private:
  struct Free {
    void operator()(std::byte* p) const;
  };
  std::unique_ptr<std::byte, Free> data_;
  size_t capacity_ = 0;
};

}  // namespace attacca::run
