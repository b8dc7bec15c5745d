// The table of import/onnx/ops.def, and its handlers by file: math, shape, reduce, indexing,
// constant, known; products/ has linear, quantize, attention, einsum, convolution, pool, resize and
// recurrent; microsoft/ those of onnxruntime's own ops.
#pragma once

#include "import/onnx/node.hpp"

namespace attacca::import {

// The row that serves an op in an opset; null if none does.
const OpRow* find_op(std::string_view domain, std::string_view name, int64_t opset);
// Whether some opset has it.
bool is_known_op(std::string_view domain, std::string_view name);

// Any elementwise IR op of the inputs, which must agree in dtype.
Result<Outputs> direct(Node& node);

#define VIA(NAME, FIRST, LAST, HANDLER, OP) Result<Outputs> HANDLER(Node&);
#define CUSTOM(NAME, FIRST, LAST, HANDLER) Result<Outputs> HANDLER(Node&);
#define MICROSOFT(NAME, FIRST, LAST, HANDLER) Result<Outputs> HANDLER(Node&);
#define KNOWN(NAME, FUNCTION) std::optional<Known> FUNCTION(Node&, const std::vector<Known>&);
#include "import/onnx/ops.def"

// Shared between handlers.
// The constant that x is, if it depends on constants only; else x.
Expr folded(const Expr& x);
// The largest finite value of a float dtype.
double largest_of(ir::DType dtype);
// Whether a slice's end stands for the end of any range. ONNX Runtime reads these as that of a
// range backwards, too, where the operator's text names the negative numbers alone.
bool is_range_end(int64_t bound);
// A size as an s64 scalar.
Expr number_of(Node& node, const ir::Dim& size);
// 0, 1, ... size-1 as s64 along one axis of a tensor of `rank`, whose other axes are 1.
Expr counting(Node& node, const ir::Dim& size, int64_t rank, int64_t axis);
// x, of which an axis must have this extent. Where symbols do not tell, but the model may count on
// it, it is a slice that is an error for sizes for which it does not hold.
Expr of_extent(Node& node, const Expr& x, int64_t axis, const ir::Dim& extent);
// concat of parts whose other axes must be equal.
Expr joined(Node& node, std::vector<Expr> parts, int64_t axis);
// matmul with NumPy's rules for vectors.
Expr numpy_matmul(Node& node, const Expr& a, const Expr& b);
// Over the last axis of x, or from `axis` on, with scale and bias at these inputs.
Expr layer_norm(Node& node, ir::Value x, size_t scale, size_t bias, double epsilon);
Expr rms_norm(Node& node, ir::Value x, size_t scale, int64_t axis, double epsilon);
// The product along an axis, which stays with extent 1; of no elements it is 1.
Expr product_along(Node& node, const Expr& x, int64_t axis);
// The shape with the axes before `axis` flattened into one, and the others into a second one.
ir::Shape flattened(const ir::Shape& shape, int64_t axis);

}  // namespace attacca::import
