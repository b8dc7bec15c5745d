// A chunk: eight neighbouring elements of a row, which a thread loads, passes to the hole pair by
// pair, and stores. A chunk is accessed as a whole if the operand allows it (chunk_access), and
// element by element otherwise and at the end of a row.
#pragma once

#include <cstdint>

#include "abi.h"
#include "common/device.cuh"

constexpr int kChunk = 8;  // elements

// How an operand's chunks may be accessed. The builder determines it (chunk_access).
enum : int32_t {
  kAccessElements = 0,  // any strides, any alignment
  kAccessPairs = 1,     // two neighbours at once: both are contiguous and aligned
  kAccessChunks = 2,    // 16 bytes at once; a chunk of 8-bit elements: its 8 bytes
};

// Host side: the widest access that pointer and strides allow. `bits`: of an element, 8, 16 or 32.
inline int32_t chunk_access(const attacca_operand& operand, int bits) {
  const uint64_t bytes = static_cast<uint64_t>(bits / 8);
  const auto divisible = [&](uint64_t by) {
    return reinterpret_cast<uintptr_t>(operand.pointer) % by == 0 &&
           static_cast<uint64_t>(operand.row_stride) * bytes % by == 0 &&
           static_cast<uint64_t>(operand.batch_stride) * bytes % by == 0;
  };
  if (operand.column_stride != 1) return kAccessElements;
  if (divisible(bits == 8 ? 8 : 16)) return kAccessChunks;
  return divisible(2 * bytes) ? kAccessPairs : kAccessElements;
}

// Host side: kAccessChunks or kAccessElements for a vector, whose elements have 1, 2 or 4 bytes.
// Elements of 1 byte are always read one by one.
inline int32_t vector_access(const attacca_vector& vector) {
  const uint64_t bytes = static_cast<uint64_t>(vector.bytes);
  const bool chunks = vector.stride == 1 && vector.bytes >= 2 &&
                      reinterpret_cast<uintptr_t>(vector.pointer) % 16 == 0 &&
                      static_cast<uint64_t>(vector.batch_stride) * bytes % 16 == 0;
  return chunks ? kAccessChunks : kAccessElements;
}

#ifdef ATTACCA_DEVICE_CODE

// A chunk's raw bits: 2 words for 8-bit elements, 4 for 16-bit ones, 8 for 32-bit ones. Chunk<0>
// stands for a slot that the row lacks; nothing reads it, so it takes no registers.
template <int BITS>
struct Chunk {
  static constexpr int kWords = kChunk * BITS / 32;
  uint32_t word[kWords > 0 ? kWords : 1];
};

template <int BITS>
struct ElementBits;
template <>
struct ElementBits<8> {
  using Type = uint8_t;
};
template <>
struct ElementBits<16> {
  using Type = uint16_t;
};
template <>
struct ElementBits<32> {
  using Type = uint32_t;
};

__device__ __forceinline__ int64_t offset_of(const attacca_operand& operand, int32_t batch,
                                             int32_t row, int32_t column) {
  return batch * operand.batch_stride + row * operand.row_stride + column * operand.column_stride;
}

// Loads four words from an address that is a multiple of 16.
__device__ __forceinline__ void load_four(const void* at, uint32_t (&word)[4]) {
  const uint4 four = __ldg(static_cast<const uint4*>(at));
  word[0] = four.x;
  word[1] = four.y;
  word[2] = four.z;
  word[3] = four.w;
}

template <int BITS>
__device__ __forceinline__ void load_by_pairs(const void* from, Chunk<BITS>& chunk) {
#pragma unroll
  for (int pair = 0; pair < kChunk / 2; ++pair) {
    if constexpr (BITS == 16) {
      chunk.word[pair] = __ldg(static_cast<const uint32_t*>(from) + pair);
    } else {
      const uint2 two = __ldg(static_cast<const uint2*>(from) + pair);
      chunk.word[2 * pair] = two.x;
      chunk.word[2 * pair + 1] = two.y;
    }
  }
}

template <int BITS>
__device__ __forceinline__ void load_by_elements(const void* from, int64_t stride, int valid,
                                                 Chunk<BITS>& chunk) {
  const auto* at = static_cast<const typename ElementBits<BITS>::Type*>(from);
#pragma unroll
  for (int i = 0; i < kChunk; i += 2) {
    const uint32_t first = i < valid ? __ldg(at + i * stride) : 0;
    const uint32_t second = i + 1 < valid ? __ldg(at + (i + 1) * stride) : 0;
    if constexpr (BITS == 16) {
      chunk.word[i / 2] = first | second << 16;
    } else {
      chunk.word[i] = first;
      chunk.word[i + 1] = second;
    }
  }
}

// Loads the first `valid` elements; the others are 0. The loads are __ldg: the kernel may write
// these elements later, for a result in place, but must write no other elements of the operand.
template <int BITS>
__device__ __forceinline__ Chunk<BITS> load_chunk(const attacca_operand& operand, int32_t access,
                                                  int32_t batch, int32_t row, int32_t column,
                                                  int valid) {
  const char* at = static_cast<const char*>(operand.pointer) +
                   offset_of(operand, batch, row, column) * (BITS / 8);
  Chunk<BITS> chunk;
  if (access == kAccessChunks && valid == kChunk) {
    uint32_t(&low)[4] = *reinterpret_cast<uint32_t(*)[4]>(&chunk.word[0]);
    load_four(at, low);
    if constexpr (BITS == 32) load_four(at + 16, *reinterpret_cast<uint32_t(*)[4]>(&chunk.word[4]));
  } else if (access == kAccessPairs && valid == kChunk) {
    load_by_pairs<BITS>(at, chunk);
  } else {
    load_by_elements<BITS>(at, operand.column_stride, valid, chunk);
  }
  return chunk;
}

template <int BITS>
__device__ __forceinline__ void store_by_pairs(void* to, const Chunk<BITS>& chunk) {
#pragma unroll
  for (int pair = 0; pair < kChunk / 2; ++pair) {
    if constexpr (BITS == 8) {
      static_cast<uint16_t*>(to)[pair] =
          static_cast<uint16_t>(chunk.word[pair / 2] >> (pair % 2 * 16));
    } else if constexpr (BITS == 16) {
      static_cast<uint32_t*>(to)[pair] = chunk.word[pair];
    } else {
      static_cast<uint2*>(to)[pair] = make_uint2(chunk.word[2 * pair], chunk.word[2 * pair + 1]);
    }
  }
}

template <int BITS>
__device__ __forceinline__ void store_by_elements(void* to, int64_t stride, int valid,
                                                  const Chunk<BITS>& chunk) {
  using Bits = typename ElementBits<BITS>::Type;
  constexpr int kInWord = 32 / BITS;
#pragma unroll
  for (int i = 0; i < kChunk; ++i) {
    const uint32_t bits = chunk.word[i / kInWord] >> (i % kInWord * BITS % 32);
    if (i < valid) static_cast<Bits*>(to)[i * stride] = static_cast<Bits>(bits);
  }
}

template <int BITS>
__device__ __forceinline__ void store_chunk(const attacca_operand& operand, int32_t access,
                                            int32_t batch, int32_t row, int32_t column, int valid,
                                            const Chunk<BITS>& chunk) {
  char* at =
      static_cast<char*>(operand.pointer) + offset_of(operand, batch, row, column) * (BITS / 8);
  if (access == kAccessChunks && valid == kChunk) {
    if constexpr (BITS == 8) {
      *reinterpret_cast<uint2*>(at) = make_uint2(chunk.word[0], chunk.word[1]);
    } else {
#pragma unroll
      for (int i = 0; i < Chunk<BITS>::kWords; i += 4)
        reinterpret_cast<uint4*>(at)[i / 4] =
            make_uint4(chunk.word[i], chunk.word[i + 1], chunk.word[i + 2], chunk.word[i + 3]);
    }
  } else if (access == kAccessPairs && valid == kChunk) {
    store_by_pairs<BITS>(at, chunk);
  } else {
    store_by_elements<BITS>(at, operand.column_stride, valid, chunk);
  }
}

// One element of a vector, zero-extended; 0 for an unused slot.
__device__ __forceinline__ uint32_t load_vector_element(const attacca_vector& vector, int32_t batch,
                                                        int32_t index) {
  if (!vector.pointer) return 0;
  const int64_t element = index * vector.stride + batch * vector.batch_stride;
  if (vector.bytes == 2) return __ldg(static_cast<const uint16_t*>(vector.pointer) + element);
  if (vector.bytes == 4) return __ldg(static_cast<const uint32_t*>(vector.pointer) + element);
  return __ldg(static_cast<const uint8_t*>(vector.pointer) + element);
}

// Loads eight neighbouring elements of a vector, one a word; those from `valid` on are 0.
__device__ __forceinline__ void load_vector_chunk(const attacca_vector& vector, int32_t access,
                                                  int32_t batch, int32_t index, int valid,
                                                  uint32_t (&word)[kChunk]) {
  if (vector.pointer && access == kAccessChunks && valid == kChunk) {
    const char* at = static_cast<const char*>(vector.pointer) +
                     (index + batch * vector.batch_stride) * vector.bytes;
    uint32_t four[4];
    load_four(at, four);
    if (vector.bytes == 2) {
#pragma unroll
      for (int i = 0; i < kChunk; ++i) word[i] = four[i / 2] >> (i % 2 * 16) & 0xffff;
    } else {
      uint32_t more[4];
      load_four(at + 16, more);
#pragma unroll
      for (int i = 0; i < kChunk; ++i) word[i] = i < 4 ? four[i % 4] : more[i % 4];
    }
  } else {
#pragma unroll
    for (int i = 0; i < kChunk; ++i)
      word[i] = i < valid ? load_vector_element(vector, batch, index + i) : 0;
  }
}

#endif  // ATTACCA_DEVICE_CODE
