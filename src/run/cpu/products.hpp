// The products of a region: what its tiles multiply. Each accumulator input of the epilogue is a
// product of its own, by the columns of B that it reads, so that a gate's halves or interleaved
// columns come apart when B is packed.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "run/cpu/epilogue_runner.hpp"
#include "run/cpu/executable.hpp"
#include "run/cpu/gemm.hpp"
#include "run/cpu/indexed.hpp"
#include "run/cpu/packed_weights.hpp"
#include "run/shared/access.hpp"

namespace attacca::run {

// Rows of a GEMM tile.
inline constexpr int64_t kTileRows = 128;

// A matrix operand with its sizes as numbers: a batch of views.
struct Operand {
  const std::byte* base = nullptr;
  ir::DType dtype = ir::DType::F32;
  std::vector<int64_t> batch, batch_strides;
  int64_t rows = 0, columns = 0, row_stride = 0, column_stride = 0;

  friend bool operator==(const Operand&, const Operand&) = default;
  bool is_shared() const {
    for (size_t axis = 0; axis < batch.size(); ++axis)
      if (batch[axis] != 1 && batch_strides[axis] != 0) return false;
    return true;
  }
  MatrixView at(int64_t index) const {
    int64_t offset = 0;
    for (size_t axis = batch.size(); axis-- > 0;) {
      offset += index % batch[axis] * batch_strides[axis];
      index /= batch[axis];
    }
    return {base + offset * ir::size_of(dtype), dtype, rows, columns, row_stride, column_stride};
  }
};

// Packed B of every matrix of a batch. Along an axis on which B does not depend there is one.
struct PackedBatch {
  std::vector<int64_t> extents;  // of the batch, 1 along those axes
  std::vector<PackedMatrix> matrices;

  // The matrix of a batch whose leading extents are `domain`'s.
  const PackedMatrix& of(int64_t batch, const std::vector<int64_t>& domain) const {
    int64_t index = 0, stride = 1;
    for (size_t axis = extents.size(); axis-- > 0;) {
      if (extents[axis] != 1) index += batch % domain[axis] * stride;
      batch /= domain[axis];
      stride *= extents[axis];
    }
    return matrices[index];
  }
};

// A matrix operand to pack for a kind of product.
struct PackedRequest {
  GemmKind kind;
  Operand operand;
  friend bool operator==(const PackedRequest&, const PackedRequest&) = default;
};

// One accumulator input: a set of columns of one GEMM, itself a GEMM with those columns of B.
struct Product {
  const fuse::Gemm* gemm = nullptr;
  ir::Dim column_offset;
  int64_t column_step = 1;
  GemmKind kind = GemmKind::F32;
  Panels panels = Panels::AsTheyAre;
  std::shared_ptr<const PackedBatch> packed = nullptr;  // where B is known
  std::string index = {};  // the name of what chooses A's rows, if that is set
};

// A product's operands for certain values of the symbols, without addresses.
struct ProductSizes {
  Operand a, b;
  int64_t a_offset = 0, b_offset = 0;  // bytes from the tensor's first element
  int64_t column_offset = 0;
  bool small = false;      // multiplying takes less time than packing B
  ConcreteAccess offsets;  // of a grouped product
  RowSizes rows;           // of an A whose rows are read by an index
};

// The rows of a grouped product's groups; those from the last group's end on belong to none.
struct Groups {
  static constexpr int64_t kNone = -1;
  std::vector<int64_t> ends;

  int64_t begin(size_t group) const { return group == 0 ? 0 : ends[group - 1]; }
};

// What one run's tiles of one product read.
struct PreparedProduct {
  const Product* product = nullptr;
  const ProductSizes* sizes = nullptr;
  Operand a;         // dense rows of the type multiplied, unless it is small
  ir::Tensor own_a;  // where they were copied
  // Set: A's row for each row of the domain. A is then as it is in memory, and its tiles are
  // copied.
  std::shared_ptr<const std::vector<int64_t>> rows;
  std::shared_ptr<const PackedBatch> packed;
  Operand b;                        // of small products, whose B is not packed
  ir::Tensor* collected = nullptr;  // the GEMM's accumulators, wanted whole

  // The tile's accumulators, dense; also written where they are collected. `group`: of a grouped
  // product, the one of all rows of the tile.
  void multiply(const Tile& tile, int64_t block, int64_t group, const std::vector<int64_t>& domain,
                std::byte* accumulators) const;

 private:
  // The tile's rows of A, of the type multiplied.
  MatrixView rows_of(const Tile& tile) const;
};

class Products {
 public:
  // The region must outlive this.
  Products(const ir::Graph& graph, const fuse::Region& region, Panels panels);

  bool empty() const { return products_.empty(); }
  size_t size() const { return products_.size(); }
  // Packs every B that is known and whose extents depend on no symbol. `shared` may be null.
  Status pack_known(const KnownValues& known, PackedWeights* shared, int threads);
  // In the order of the epilogue's accumulator inputs, as what prepare() returns.
  Result<std::vector<ProductSizes>> measure(const ir::SymbolValues& symbols,
                                            const std::vector<int64_t>& domain) const;
  // The groups of a grouped product's rows, which all products of a region share; none for plain
  // products.
  std::optional<Groups> groups(const RunState& state, const std::vector<ProductSizes>& sizes) const;
  // `sizes`: what measure() gave; they must outlive what is returned. Of groups without rows
  // nothing is packed.
  Result<std::vector<PreparedProduct>> prepare(RunState& state,
                                               const std::vector<ProductSizes>& sizes,
                                               const std::optional<Groups>& groups) const;

 private:
  const ir::Shape& domain_;
  std::vector<Product> products_;
};

}  // namespace attacca::run
