// The epilogue of a user's kernel, as the function that each element goes through before it is
// stored (ptx/analysis/fuse_kernel.hpp says when it is called):
//
//   extern "C" __device__ WORD attacca_tail(WORD out, unsigned long long index,
//                                           const TYPE* row0, const TYPE* full0, ...)
//
// It has no effect but its result. It is also called where the store's predicate is false, with an
// index below 64. WORD is uint32_t for elements of at most 4 bytes, zero-extended, unsigned long
// long for 8. The pointers are the inputs that are no accumulator, in order.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "epilogue/hole.hpp"

namespace attacca::epilogue {

struct TailOptions {
  CudaOptions cuda;               // its function's name is the tail's
  int64_t rows = 0, columns = 0;  // the output's: constants of the code
};

// Why the epilogue cannot be such a function; empty: it can.
std::optional<std::string> tail_refusal(const Epilogue& epilogue);

// A number of rows whose code differs only in its first line, so that outputs of any height share a
// kernel if they can.
int64_t rows_in_code(int64_t rows, int64_t columns);

// Self-contained CUDA C++. REQUIRES: no refusal.
std::string emit_tail_function(const Epilogue& epilogue, const TailOptions& options);

// Text to append to it: what a store of `count` elements calls, in two steps, so that the operands
// of several stores can be loaded at once, and before the values are known:
//
//   struct attacca_fetched_4 { uint32_t word[W]; };
//   struct attacca_words_4 { WORD word[4]; };
//   extern "C" __device__ attacca_fetched_4 attacca_tail_fetch_4(unsigned long long index, ...)
//   extern "C" __device__ attacca_words_4 attacca_tail_4(attacca_words_4, attacca_fetched_4)
//
// The index is that of the first element. Without operands there is no first step.
struct TailPack {
  std::string source;
  size_t words = 0;  // W
  // The first step loads vectors of up to 16 bytes. It may be called only if the index is a
  // multiple of `count` and the row and full operands are aligned to 16 bytes;
  // attacca_tail_fetch_4_apart does without.
  bool is_wide = false;
};

// Null if the output is too small for it.
std::optional<TailPack> emit_tail_pack(const Epilogue& epilogue, const TailOptions& options,
                                       int count);

}  // namespace attacca::epilogue
