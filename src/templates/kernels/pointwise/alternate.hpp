// Two operands that are the even and the odd columns of one matrix of 16-bit elements, such as a
// gate's halves, or of one vector, such as its biases. Loaded separately, their elements would have
// a stride of two. Instead, words of 32 bits are loaded, which hold one element of each operand; no
// load reads anything else, not even at the end of a row.
#pragma once

#include "common/chunk.cuh"

namespace attacca_pointwise {

struct Alternate {
  // Of 32 bits, as many as either operand has elements. nullptr: the operands do not alternate.
  attacca_operand words;
  int32_t access;
  // Selectors for choose_bytes() of two words: the first and the second operand's elements.
  uint32_t half[2];
};

inline Alternate find_alternate(const attacca_operand& first, const attacca_operand& second) {
  constexpr uint32_t kLower = 0x5410, kUpper = 0x7632;
  const auto address = [](const attacca_operand& operand) {
    return reinterpret_cast<uintptr_t>(operand.pointer);
  };
  const bool lower_first = address(first) < address(second);
  const attacca_operand &lower = lower_first ? first : second,
                        &upper = lower_first ? second : first;
  const bool alternate = lower.pointer && address(lower) + 2 == address(upper) &&
                         lower.column_stride == 2 && upper.column_stride == 2 &&
                         lower.row_stride == upper.row_stride &&
                         lower.batch_stride == upper.batch_stride;
  const bool in_words =
      address(lower) % 4 == 0 && lower.row_stride % 2 == 0 && lower.batch_stride % 2 == 0;
  if (!alternate || !in_words) return {};
  Alternate found;
  found.words = {lower.pointer, lower.row_stride / 2, 1, lower.batch_stride / 2};
  found.access = chunk_access(found.words, 32);
  found.half[0] = lower_first ? kLower : kUpper;
  found.half[1] = lower_first ? kUpper : kLower;
  return found;
}

// For vectors: the words have one row.
inline Alternate find_alternate(const attacca_vector& first, const attacca_vector& second) {
  if (first.bytes != 2 || second.bytes != 2) return {};
  const auto row = [](const attacca_vector& vector) {
    return attacca_operand{const_cast<void*>(vector.pointer), 0, vector.stride,
                           vector.batch_stride};
  };
  return find_alternate(row(first), row(second));
}

}  // namespace attacca_pointwise
