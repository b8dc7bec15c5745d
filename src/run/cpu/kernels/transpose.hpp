// Transposes of small blocks of 4-byte elements.
#pragma once

#include <cstdint>

namespace attacca::run {

// out[r * out_stride + c] = in[r + c * in_stride] for r < rows, c < columns.
void transpose_block(const uint32_t* in, int64_t in_stride, int64_t rows, int64_t columns,
                     uint32_t* out, int64_t out_stride);

}  // namespace attacca::run
