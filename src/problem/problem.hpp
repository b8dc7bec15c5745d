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

// Of a product of 8-bit floats: f32 [m, k / 128] for A, [k / 128, n / 128] for B, rounded up. The
// sum of each 128 values of k is multiplied by both.
struct ScaledBlocks {
  View a = {}, b = {};
  ir::Value a_source = {}, b_source = {};
};
inline constexpr int64_t kScaleBlock = 128;

// A [m, k] x B [k, n]; `stored` is the dtype that the unfused product writes.
struct Product {
  int64_t n = 0, k = 0;
  View a = {}, b = {};
  ir::DType accumulator = ir::DType::F32;
  ir::DType stored = ir::DType::F32;
  bool fast = false;  // as fuse::Gemm::fast
  // b_source is a packed tensor of this layout, b what it unpacks to.
  std::optional<ir::PackedLayout> packed = {};
  std::optional<ScaledBlocks> scales = {};
  ir::Value node = {}, a_source = {}, b_source = {};
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
  std::vector<int64_t> strides;  // in elements, in the order of Problem::views() without a kernel's
};

// A kernel of the user's and what it is passed. Its result is what the epilogue's accumulator is.
struct KernelPart {
  struct Operand {
    View view;  // a row of all that it spans
    int64_t elements = 0;
    ir::Value source = {};
  };
  ir::KernelCall call;  // its sizes are numbers
  ir::DType stored = ir::DType::F32;
  int64_t elements = 0;  // of the result, which lies dense
  ir::Value node = {};
  std::string name;  // of the node, for messages
  std::vector<Operand> operands;
};

struct Problem {
  int64_t m = 0, n = 0, batch = 1;
  std::vector<OuterAxis> outer;
  std::vector<Product> products;  // none: a pointwise problem, or
  std::optional<KernelPart> kernel;
  epilogue::Epilogue epilogue;  // canonical
  // One an input of the epilogue. An accumulator's means nothing, but is that of the kernel's
  // result.
  std::vector<View> inputs;
  std::vector<View> outputs;
  ir::Mode mode = ir::Mode::Fp32;

  bool empty() const { return m == 0 || n == 0 || batch == 0; }
  // Every operand: a and b of each product, the scales of those that have some, or the kernel's,
  // then inputs, then outputs.
  std::vector<View*> views();
  // Which of them is the first scale of this product; past the last product, the first input.
  size_t scales_view(size_t product) const;
  std::vector<const View*> views() const;
  // One an accumulator input of the epilogue, in their order: two of a gate, whether it is of two
  // products or of halves or alternate columns of one.
  std::vector<Factor> factors() const;
};

// Addresses of the operands' first bytes (before View::offset), in the order of Problem::views().
// Nothing is written through those that are inputs.
using Pointers = std::vector<void*>;

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
                                     const ir::SymbolValues& symbols,
                                     const AlignmentOf& alignment_of);

// What decides which candidate is best, shapes left out: dtypes, layouts, epilogue, mode.
std::string problem_class(const Problem& problem);
// The shape with M rounded up to its bucket: "m<=256 n=4096 batch=1 k=11008".
std::string shape_bucket(const Problem& problem);

// Floating-point operations of the products, and the fewest bytes that must move.
double operations(const Problem& problem);
double bytes(const Problem& problem);

}  // namespace attacca::problem
