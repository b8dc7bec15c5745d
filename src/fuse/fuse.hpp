// Cuts a graph into regions, each of which becomes one kernel. For every op that joined no region
// there is a reason, as a value.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "epilogue/epilogue.hpp"
#include "ir/graph/graph.hpp"
#include "ir/interpret/codes.hpp"
#include "ir/packed/packed.hpp"

namespace attacca::fuse {

inline constexpr int64_t kScaleBlock = 128;
// One f32 for each block of an operand. A block of A is 128 values of k in one row, a block of B
// 128 values of k by 128 columns. The access counts blocks where the operand's counts elements.
struct BlockScales {
  ir::Value source;
  epilogue::Access access;
};

// The scales of weights in codes, and their zero points. All are row-major.
struct Codes {
  ir::CodeFormat format;
  ir::Value scales;
  std::optional<ir::Value> zeros = {};
};

// One operand of a matrix product: element (batch..., row, column) of A [M, K] or B [K, N] is at
// access.offset + coordinates * access.strides of `source`; transposes and views are absorbed here.
// A row or column axis of extent 1 has the stride that a next one would have.
struct GemmOperand {
  ir::Value source;
  // Bytes that the product widens to A's dtype of 16 bits have their own dtype here.
  ir::DType dtype = ir::DType::F32;
  epilogue::Access access;
  // Set for a packed B: the layout of `source`. dtype and access describe the unpacked weights.
  std::optional<ir::PackedLayout> packed = {};
  // Set for both operands, which are 8-bit floats, or for neither. The product of two blocks is
  // multiplied by both scales.
  std::optional<BlockScales> scales = {};
  // Set for an A whose rows an index names: where A's row is r, the access's row is the one that
  // the index names at r.
  std::optional<epilogue::RowIndex> rows = {};
  // Set for a B in codes: `source` holds them. dtype and access describe the weights.
  std::optional<Codes> codes = {};
};

// The ends of a grouped product's groups (ir/interpret/groups.hpp). The access has one stride.
struct GroupEnds {
  ir::Value source;
  epilogue::Access access;
  ir::Dim count;  // groups
};

struct Gemm {
  ir::Value node;  // the matmul or grouped matmul
  GemmOperand a, b;
  ir::Shape batch;        // empty for a plain product
  ir::Dim m, n, k;        // n: of this product; 2 * I if its halves are a gate of I columns
  ir::DType accumulator;  // f32, s32 or f64
  bool fast = false;      // as ir::MatMulAttrs::fast
  // Set for a grouped product: it has no batch, and B's access has the groups as its first axis.
  std::optional<GroupEnds> groups = {};
};

enum class RegionKind : uint8_t {
  Gemm,        // one product + epilogue
  GatedGemm,   // two accumulators of one A: two products, or two column sets of one
  Pointwise,   // no product: elementwise ops as one kernel
  UserKernel,  // a kernel of the user's + epilogue, in place of what it stores
  Single,      // one op on its own: reductions, gather, copies that no region absorbs
};

struct Region {
  RegionKind kind = RegionKind::Single;
  std::optional<ir::Value> kernel;  // set for UserKernel
  std::vector<Gemm> gemms;          // in the order in which the epilogue's inputs name them
  epilogue::Epilogue epilogue;      // empty for Single; UserKernel: acc is what it stores
  std::vector<ir::Value> nodes;     // the graph nodes it computes, ascending; Single: exactly one
  std::vector<ir::Value> inputs;    // values it reads from memory, each once
  std::vector<ir::Value> outputs;   // values it materialises
};

// Why a node did not join the region that computes its operand, or why nothing joined a matmul.
struct Refusal {
  ir::Value node;
  ir::Value region_root;  // the matmul or first node of the region that it did not join
  std::string reason;     // "the result of g is used by t7 outside the region and ..."
};

// Regions in an order in which they can run: each reads only graph inputs, constants and outputs of
// earlier regions.
struct Partition {
  ir::Graph graph;
  std::vector<Region> regions;
  std::vector<Refusal> refusals;
};

// The reductions that the executor's kernels can compute together with a product.
enum class Reductions : uint8_t {
  None,
  Amax,  // one f32 amax of a whole matrix for each product
  All,
};

struct FuseOptions {
  bool fuse = true;  // false: every op its own region, the unfused path
  Reductions reductions = Reductions::All;
  // Whether products read packed weights, bytes that are cast to A's dtype, and the operands of
  // scale_blocks by themselves. Weights in codes have options of their own below.
  bool quantized_operands = false;
  // Whether grouped products start regions.
  bool grouped = true;
  // Whether products read rows by an index and add rows of results by one.
  bool rows = false;
  // Whether grouped products read rows by an index that no other op gathers.
  bool grouped_rows = false;
  // Whether a product's epilogue reads an operand's rows by an index.
  bool indexed_operands = false;
  // Whether products widen weights in codes (mxfp4, decode) by themselves.
  bool codes = false;
  // Whether grouped products widen weights in codes by themselves, even where `codes` is not set.
  bool grouped_codes = false;
  // Whether regions continue after a transpose or permute of their results: kernels store results
  // with any strides.
  bool transposes = false;
};

Partition partition(ir::Graph graph, const FuseOptions& options = {});

// Every node computed exactly once, every input available, epilogues verified. An error is a bug of
// this layer.
Status verify(const Partition& partition);

}  // namespace attacca::fuse
