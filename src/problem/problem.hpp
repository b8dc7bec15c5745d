// A region at hand: every extent, stride and alignment a number. What candidates are made for, what
// they are timed on, and what they are launched with.
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
struct View {
  ir::DType dtype = ir::DType::F32;
  int64_t offset = 0;
  int64_t row_stride = 0, column_stride = 0, batch_stride = 0;
  int alignment = 16;
  friend bool operator==(const View&, const View&) = default;
};

// The scales of a product of 8-bit floats: f32 [m, k / 128] for A, [k / 128, n / 128] for B,
// rounded up. The sum of each 128 values of k is multiplied by both.
inline constexpr int64_t kScaleBlock = 128;

// A [m, k] x B [k, n]; `stored` is the dtype that the unfused product writes.
struct Product {
  int64_t n = 0, k = 0;
  ir::DType accumulator = ir::DType::F32;
  ir::DType stored = ir::DType::F32;
  bool fast = false;  // as fuse::Gemm::fast
  // B's source is a packed tensor of this layout, its view what that unpacks to.
  std::optional<ir::PackedLayout> packed = {};
  ir::Value node = {};
};

// What one accumulator set of the epilogue is the product of: the product's A, and the columns of
// its B that the epilogue reads there.
struct Factor {
  size_t product = 0;
  View b = {};
};

// A batch axis that strides do not let merge with the others: one launch a step.
struct OuterAxis {
  int64_t extent = 1;
  Operands<int64_t> strides;  // in elements
};

// A kernel of the user's. Its result is what the epilogue's accumulator is.
struct KernelPart {
  ir::KernelCall call;  // its sizes are numbers
  ir::DType stored = ir::DType::F32;
  int64_t elements = 0;  // of the result, which lies dense
  ir::Value node = {};
  std::string name;  // of the node, for messages
};

struct Problem {
  int64_t m = 0, n = 0, batch = 1;
  std::vector<OuterAxis> outer;
  std::vector<Product> products;  // none: a pointwise problem, or
  std::optional<KernelPart> kernel;
  epilogue::Epilogue epilogue;  // canonical
  // An input of the epilogue that is an accumulator has no memory, so that its view and address
  // mean nothing, unless a kernel's result is stored there. An operand of a kernel is one row of
  // all that it spans.
  Operands<View> views;
  Operands<ir::Value> sources;  // the values of the graph that they are
  ir::Mode mode = ir::Mode::Fp32;

  bool empty() const { return m == 0 || n == 0 || batch == 0; }
  // Whether a product reads the A that the first one reads too, as of a gate.
  bool repeats_first_a(size_t product) const;
  // One an accumulator input of the epilogue, in their order: two of a gate, whether it is of two
  // products or of halves or alternate columns of one.
  std::vector<Factor> factors() const;
};

// The pointwise problem of `tail`, an epilogue of the problem's operands that reads its
// accumulators from memory: views.inputs there are those of the products' or the kernel's results.
Problem tail_problem(const Problem& problem, epilogue::Epilogue tail);

// Of the operands' first bytes (before View::offset), as aligned as the problem says. Nothing is
// written through those that are inputs.
using Addresses = Operands<void*>;

struct Extents {
  int64_t rows = 1, columns = 1;
};
// Of one batch of each operand.
Operands<Extents> extents(const Problem& problem);

// Bytes to which the memory of a graph value is aligned (a power of two).
using AlignmentOf = std::function<int(ir::Value)>;

// The region with symbols replaced. Batch axes are merged with each other and into M where all
// strides allow it. Errors: symbols without a value, extents beyond 2^31 - 1, a reduction output.
// REQUIRES: a region with an epilogue (not Single).
Result<Problem> concretize(const fuse::Region& region, const ir::Graph& graph,
                           const ir::SymbolValues& symbols, ir::Mode mode,
                           const AlignmentOf& alignment_of);

// The kernel of a graph's node likewise.
Result<KernelPart> concretize_kernel(const ir::Graph& graph, ir::Value kernel,
                                     const ir::SymbolValues& symbols);

// What decides which candidate is best, shapes left out: dtypes, layouts, epilogue, mode.
std::string problem_class(const Problem& problem);
// The shape with M rounded up to its bucket: "m<=256 n=4096 batch=1 k=11008".
std::string shape_bucket(const Problem& problem);

// Floating-point operations of the products, and the fewest bytes that must move.
double operations(const Problem& problem);
double bytes(const Problem& problem);

}  // namespace attacca::problem
