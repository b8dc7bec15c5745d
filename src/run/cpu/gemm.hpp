// Products of a row panel with a column block of packed weights, by oneDNN on one thread: tiles of
// f32, s32 or f64 accumulators for an epilogue to finish.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "run/cpu/matrix.hpp"

namespace attacca::run {

// How a product is computed: the types its operands are brought to, and its accumulators.
enum class GemmKind : uint8_t {
  F32,   // all other pairs of floats; f32 accumulators
  BF16,  // both bf16, where the machine multiplies bf16; f32 accumulators
  S8,    // s8 or u8 by s8, where the machine has VNNI; s32 accumulators
  U8,
  S8ByU8,  // s8 or u8 by u8
  U8ByU8,
  Integers,  // any byte pair, exactly, by f32 products of short slices of K; s32 accumulators
  F64,       // by plain loops
};
GemmKind choose_gemm(ir::DType a, ir::DType b, ir::DType accumulator);
// The dtype A must have in memory, dense rows.
ir::DType a_dtype(GemmKind kind);
ir::DType accumulator_dtype(GemmKind kind);

// accumulators[rows, columns], dense, = a times b by plain loops, which need no packing. Operands
// of any dtype and strides. REQUIRES: integers whose sums of products fit in s32.
void multiply_small(GemmKind kind, const MatrixView& a, const MatrixView& b,
                    std::byte* accumulators);

// How the rows of a panel are given to oneDNN.
enum class Panels : uint8_t {
  AsTheyAre,  // all at once: the order of a row's sum may depend on how many rows there are
  Fixed,      // so many at a time, padded with zeros: it does not
};

// Columns a tile has, at most; the packed blocks are this wide.
int64_t block_columns(int64_t n);

// B [K, N], cut into column blocks in the layout that the multiplier reads. Immutable once packed.
class PackedMatrix {
 public:
  // Packs nothing yet: blocks can be packed in parallel.
  PackedMatrix(GemmKind kind, int64_t k, int64_t n);
  ~PackedMatrix();
  PackedMatrix(PackedMatrix&&) noexcept;

  int64_t blocks() const;
  int64_t block_begin(int64_t block) const { return block * width_; }
  int64_t block_end(int64_t block) const { return std::min(n_, (block + 1) * width_); }
  void pack_block(const MatrixView& b, int64_t block);

  // accumulators[rows, columns of the block], dense, = A's rows times the block. `a` has `rows`
  // dense rows of K elements of a_dtype(). Thread-safe once packed.
  void multiply(const std::byte* a, int64_t rows, int64_t block, std::byte* accumulators,
                Panels panels = Panels::AsTheyAre) const;

  // oneDNN's name of the implementation used for panels of that many rows; never a reference one.
  std::string implementation(int64_t rows) const;

 private:
  void unshift(const std::byte* a, int64_t rows, int64_t columns, const uint32_t* column_sums,
               std::byte* accumulators) const;

  struct Impl;
  GemmKind kind_;
  int64_t k_, n_, width_;
  std::unique_ptr<Impl> impl_;
};

}  // namespace attacca::run
