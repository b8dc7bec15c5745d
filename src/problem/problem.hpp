// A region whose extents, strides and alignments are all numbers. Candidates are made for a
// problem, timed on it, and launched with it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "epilogue/hole.hpp"
#include "fuse/fuse.hpp"
#include "ir/graph/mode.hpp"
#include "problem/operands.hpp"

namespace attacca::problem {

// Element (batch, row, column) of an operand is at offset + batch * batch_stride + row * row_stride
// + column * column_stride, in elements. `alignment`: of that first element, in bytes, 16 at most.
// For B of a grouped product, B's scales, and an input of its epilogue that has a row for each
// group, a batch is a group.
struct View {
  ir::DType dtype = ir::DType::F32;
  int64_t offset = 0;
  int64_t row_stride = 0, column_stride = 0, batch_stride = 0;
  int alignment = 16;
  friend bool operator==(const View&, const View&) = default;
};

// The scales of a product of 8-bit floats are f32 [m, ceil(k / 128)] for A, [ceil(k / 128),
// ceil(n / 128)] for B. The sum over each 128 values of k is multiplied by both scales.
using fuse::kScaleBlock;
// The blocks along an extent.
constexpr int64_t scale_blocks(int64_t extent) {
  return (extent + kScaleBlock - 1) / kScaleBlock;
}

// A [m, k] x B [k, n]; `stored` is the dtype that the unfused product writes.
struct Product {
  int64_t n = 0, k = 0;
  ir::DType accumulator = ir::DType::F32;
  ir::DType stored = ir::DType::F32;
  bool fast = false;  // as fuse::Gemm::fast
  // If set, B's source is a packed tensor of this layout, and B's view describes the unpacked
  // weights.
  std::optional<ir::PackedLayout> packed = {};
  // Set for a grouped product: how many matrices B has, batch_stride apart, and how many s32 ends
  // of groups there are, column_stride apart. Row r of A is multiplied by the matrix of its group
  // (ir/interpret/groups.hpp); rows of no group give 0.
  std::optional<int64_t> groups = {};
  // Set where an index names the rows of A, column_stride apart: of how many rows. All bytes of a
  // row that does not exist are 0xff.
  std::optional<int64_t> rows = {};
  // If set, B's memory is codes of this format, and its view describes the weights. Both are
  // row-major; the views of scales and zero points are one row of all of them.
  std::optional<ir::CodeFormat> codes = {};
  ir::Value node = {};
};

// The factors of one accumulator: the product's A, and the columns of its B that the epilogue reads
// from this accumulator.
struct Factor {
  size_t product = 0;
  View b = {};
  std::optional<View> scales = {};  // of the blocks of these columns
};

// Whether B is bytes, which the product widens to A's dtype of 16 bits.
inline bool is_widened(const ProductOperands<View>& views) {
  return ir::size_of(views.a.dtype) == 2 && ir::is_integer(views.b.dtype) &&
         ir::size_of(views.b.dtype) == 1;
}

// A batch axis that cannot be merged with the others. Each step along it is a launch.
struct OuterAxis {
  int64_t extent = 1;
  Operands<int64_t> strides;  // in elements
};

// A user's kernel. Its result is the epilogue's accumulator.
struct KernelPart {
  ir::KernelCall call;  // its sizes are numbers
  ir::DType stored = ir::DType::F32;
  int64_t elements = 0;  // of the result, which is dense
  ir::Value node = {};
  std::string name;  // of the node, for messages
  // For keys: a hash of the file, without what it includes. 0: it cannot be read, or not
  // concretize() made this.
  uint64_t contents = 0;
};

struct Problem {
  int64_t m = 0, n = 0, batch = 1;
  std::vector<OuterAxis> outer;
  // Neither products nor a kernel: a pointwise problem.
  std::vector<Product> products;
  std::optional<KernelPart> kernel;
  epilogue::Epilogue epilogue;  // canonical
  // For each of views.indices: the number of rows that it may name, which are row_stride apart. All
  // bytes of a row that does not exist are 0xff.
  std::vector<int64_t> named_rows;
  // An accumulator among the epilogue's inputs has no memory, and its view and address are not
  // used, unless a user's kernel stores its result there. An operand of a user's kernel is one row
  // that covers all of its memory.
  Operands<View> views;
  Operands<ir::Value> sources;  // their values in the graph
  ir::Mode mode = ir::Mode::Fp32;
  // How the problem is computed depends on neither m nor batch, and no row on another.
  bool batch_invariant = false;

  bool empty() const { return m == 0 || n == 0 || batch == 0; }
  // Whether a product reads the same A as the first one, as a gate's second product does.
  bool repeats_first_a(size_t product) const;
  // One for each accumulator among the epilogue's inputs, in their order. A gate has two, whether
  // they are two products or the halves or alternate columns of one.
  std::vector<Factor> factors() const;
};

// The pointwise problem of `tail`, an epilogue of the problem's operands that reads its
// accumulators from memory: views.inputs there are those of the products' or the kernel's results.
Problem tail_problem(const Problem& problem, epilogue::Epilogue tail);

// Makes the problem batch-invariant. Of one row, results get the stride that a second row would
// have: where a graph says 1, the region's strides there are 0.
void make_batch_invariant(Problem& problem);

// The same product with a tail whose operands have no rows, as operands of one row look: what
// templates for a batch-invariant problem are ranked by, for so many rows.
Problem with_rows_alike(const Problem& problem, int64_t rows);

// Whether an index names the rows of an A.
bool names_rows(const Problem& problem);
// The same problem where each A has been gathered: its rows follow each other.
Problem with_gathered_rows(const Problem& problem);

// The bytes of codes and scales for each byte of the weights.
inline double code_share(const ir::CodeFormat& format) {
  return format.bytes() / double(ir::size_of(format.dtype));
}

// Whether the epilogue reads a row for each group.
bool reads_by_group(const Problem& problem);
// The same problem where numbers of the rows' groups, s32 that follow each other, are the index of
// such inputs.
Problem with_numbered_groups(const Problem& problem);

// Whether B of a product is weights in codes.
bool has_codes(const Problem& problem);
// From the first weight of such a B's memory to the last one that the product reads, in whole
// blocks.
int64_t coded_weights(const Problem& problem, size_t product);
// The same problem where such weights have been widened, each to its place.
Problem with_widened_weights(const Problem& problem);

// The addresses of the operands' first bytes (before View::offset), aligned as the problem says.
// Nothing is written to inputs.
using Addresses = Operands<void*>;

struct Extents {
  int64_t rows = 1, columns = 1;
};
// The extents of one batch of each operand.
Operands<Extents> extents(const Problem& problem);

// The alignment in bytes, a power of two, of a graph value's memory.
using AlignmentOf = std::function<int(ir::Value)>;

// The region with symbols replaced. Batch axes are merged with each other and into M where all
// strides allow it. Errors: symbols without a value, extents beyond 2^31 - 1, a reduction output.
// REQUIRES: a region with an epilogue (not Single).
Result<Problem> concretize(const fuse::Region& region, const ir::Graph& graph,
                           const ir::SymbolValues& symbols, ir::Mode mode,
                           const AlignmentOf& alignment_of);

// The same for the kernel of a graph's node.
Result<KernelPart> concretize_kernel(const ir::Graph& graph, ir::Value kernel,
                                     const ir::SymbolValues& symbols);

// Everything that decides which candidate is best, except shapes: dtypes, layouts, epilogue, mode.
std::string problem_class(const Problem& problem);
// How many launches compute it: one for each step along the axes of `outer`.
int64_t launches(const Problem& problem);
// The shape with M rounded up to its bucket: "m<=256 n=4096 batch=1 k=11008". Of a user's kernel
// also the sizes that it is given, in the same buckets.
std::string shape_bucket(const Problem& problem);

// Floating-point operations of the products, and the fewest bytes that must move.
double operations(const Problem& problem);
double bytes(const Problem& problem);

}  // namespace attacca::problem
