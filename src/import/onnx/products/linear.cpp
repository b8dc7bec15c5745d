// Matrix products, plain and quantised.
#include "import/onnx/products/linear.hpp"

#include "fmt/format.h"

#include "import/onnx/ops.hpp"
#include "import/onnx/tensor.hpp"

namespace attacca::import {
namespace {

using ir::DType;
using ir::Op;
using ir::Shape;
using ir::Value;

Expr transpose_if(const Expr& x, bool condition) {
  return condition ? emit(Op::Transpose, std::vector<Expr>{x}) : x;
}

// An optional zero point of one operand of an integer product; nullopt where it is 0.
Result<std::optional<Expr>> zero_point(Node& node, const QuantizedOperand& operand, bool rows) {
  if (!operand.zero) return std::nullopt;
  ATTACCA_TRY_VOID(check_zero(node, *operand.zero, node.dtype(operand.q)));
  if (is_zero(node, *operand.zero)) return std::nullopt;
  Shape shape = node.shape(*operand.zero);
  // One value for each row of A becomes a column. One for each column of B is along N already.
  if (rows && shape.size() == 1 && !shape[0].is(1)) shape.push_back(1);
  if (shape.size() == 1 && shape[0].is(1)) shape.clear();
  return folded(cast(reshape(node.expr(*operand.zero), shape), DType::S32));
}

}  // namespace

Expr folded(const Expr& x) {
  if (!x.value) return x;
  constexpr int64_t kMaxWeights = 1 << 22;
  auto tensor = fold_constant(*x.graph, *x.value, kMaxWeights);
  if (!tensor) return x;
  return {x.graph, add_constant(*x.graph, *std::move(tensor))};
}

bool is_zero(Node& node, Value value) {
  const ir::Node& from = node.graph()[value];
  if (from.literal) return from.literal->value == 0;
  const auto tensor = fold_constant(node.graph(), value);
  if (!tensor) return false;
  for (int64_t i = 0; i < tensor->size(); ++i)
    if (tensor->number_at(i) != 0) return false;
  return true;
}

Result<QuantizedOperand> quantized_operand(Node& node, size_t q_at, size_t zero_at) {
  QuantizedOperand operand;
  ATTACCA_TRY(operand.q, node.input(q_at));
  if (node.has(zero_at)) {
    ATTACCA_TRY(operand.zero, node.input(zero_at));
  }
  return operand;
}

// A @ B - rowsum(A) * zb - za * colsum(B - zb).
Result<Expr> integer_product(Node& node, const QuantizedOperand& a, const QuantizedOperand& b) {
  for (const Value value : {a.q, b.q})
    if (!ir::is_byte(node.dtype(value)))
      return fail(fmt::format("an operand is {}, wanted int8 or uint8",
                              ir::to_string(node.graph().type(value))));
  ATTACCA_TRY(const auto za, zero_point(node, a, true));
  ATTACCA_TRY(const auto zb, zero_point(node, b, false));
  const int64_t rank_a = node.rank(a.q), rank_b = node.rank(b.q);
  if ((za || zb) && (rank_a < 2 || rank_b < 2))
    return fail("zero points of a product with a vector are not supported", {},
                "reshape the vector to a matrix");
  Expr product = numpy_matmul(node, node.expr(a.q), node.expr(b.q));
  if (zb) {
    const Expr rows = reduce(Op::Sum, cast(node.expr(a.q), DType::S32), {rank_a - 1}, true);
    product = product - rows * *zb;
  }
  if (za) {
    Expr wide = cast(node.expr(b.q), DType::S32);
    if (zb) wide = wide - *zb;
    product = product - *za * folded(reduce(Op::Sum, wide, {rank_b - 2}, true));
  }
  return product;
}

Expr numpy_matmul(Node& node, const Expr& a, const Expr& b) {
  if (!a.value) return a;
  if (!b.value) return b;
  const Shape sa = node.shape(*a.value), sb = node.shape(*b.value);
  if (sa.empty() || sb.empty()) return node.failed("a matrix product of a scalar", "use Mul");
  const bool row = sa.size() == 1, column = sb.size() == 1;
  const int64_t rows = column ? 0 : static_cast<int64_t>(sb.size()) - 2;
  const ir::Dim depth = sb[static_cast<size_t>(rows)];
  // The side of a symbol is checked, so that constants stay as they are.
  const bool left = depth.is_static();
  node.broadcasts({a, b}, 2);
  const Expr x = left ? of_extent(node, a, static_cast<int64_t>(sa.size()) - 1, depth) : a;
  const Expr y = left ? b : of_extent(node, b, rows, sa.back());
  const Expr product = matmul(row ? reshape(x, {1, left ? depth : sa[0]}) : x,
                              column ? reshape(y, {left ? depth : sa.back(), 1}) : y);
  if (!product.value || (!row && !column)) return product;
  Shape shape = node.shape(*product.value);
  if (column) shape.pop_back();
  if (row) shape.erase(shape.end() - (column ? 1 : 2));
  return reshape(product, shape);
}

Result<Expr> of_shape(Node& node, const Expr& x, const Shape& shape, std::string_view what) {
  ATTACCA_TRY(const Value value, x.value);
  if (node.shape(value) == shape) return x;
  return fail(fmt::format("{} does not broadcast to {}", what, ir::to_string(shape)));
}

Result<Expr> biased(Node& node, const Expr& product, size_t bias) {
  ATTACCA_TRY(const Value value, product.value);
  if (!node.has(bias)) return product;
  node.broadcasts({product, node.x(bias)});
  return of_shape(node, product + node.x(bias), node.shape(value), "the bias");
}

Result<Outputs> mat_mul(Node& node) {
  return numpy_matmul(node, node.x(0), node.x(1));
}

Result<Outputs> gemm(Node& node) {
  const double alpha = node.real("alpha", 1.0), beta = node.real("beta", 1.0);
  const Expr a = transpose_if(node.x(0), node.integer("transA", 0) != 0);
  const Expr b = transpose_if(node.x(1), node.integer("transB", 0) != 0);
  Expr product = matmul(a, b);
  if (!product.value) return product;
  const Shape shape = node.shape(*product.value);
  if (shape.size() != 2) return fail("Gemm multiplies matrices, got " + ir::to_string(shape));
  if (alpha != 1.0) product = product * alpha;
  if (!node.has(2) || beta == 0.0) return product;
  node.broadcasts({product, node.x(2)});
  const Expr c = beta == 1.0 ? node.x(2) : node.x(2) * beta;
  ATTACCA_TRY(const Expr sum, of_shape(node, product + c, shape, "C"));
  return sum;
}

Result<Outputs> mat_mul_integer(Node& node) {
  ATTACCA_TRY(const QuantizedOperand a, quantized_operand(node, 0, 2));
  ATTACCA_TRY(const QuantizedOperand b, quantized_operand(node, 1, 3));
  ATTACCA_TRY(const Expr product, integer_product(node, a, b));
  return product;
}

// saturate(round(product * ((scale_a * scale_b) / scale_y)) + zero_y). The factor is rounded to f32
// as ONNX Runtime rounds it, so that quotients next to a half fall on the same side.
Result<Outputs> qlinear_mat_mul(Node& node) {
  ATTACCA_TRY(const QuantizedOperand a, quantized_operand(node, 0, 2));
  ATTACCA_TRY(const QuantizedOperand b, quantized_operand(node, 3, 5));
  ATTACCA_TRY(const Expr exact, integer_product(node, a, b));
  ATTACCA_TRY(const Value product, exact.value);
  const int64_t rank = node.rank(product);
  const auto in_f32 = [&](size_t at, int64_t axis) -> Expr {
    const auto by = node.input(at);
    if (!by) return {&node.graph(), by};
    const auto along = along_axis(node, *by, axis, rank);
    if (!along) return {&node.graph(), along};
    return folded(cast(node.expr(*along), DType::F32));
  };
  ATTACCA_TRY(const Value zero, node.input(7));
  for (const size_t scale : {1, 4, 6}) {
    ATTACCA_TRY(const Value value, node.input(scale));
    ATTACCA_TRY_VOID(check_scale(node, value));
  }
  const DType dtype = node.dtype(zero);
  ATTACCA_TRY_VOID(check_quantized(dtype));
  const Expr factor = folded(folded(in_f32(1, -2) * in_f32(4, -1)) / in_f32(6, -2));
  const Expr quotient = cast(node.expr(product), DType::F32) * factor;
  if (ir::is_fp8(dtype)) return cast(quotient, dtype, true);
  const Expr rounded = emit(Op::Round, quotient);
  return cast(is_zero(node, zero) ? rounded : rounded + in_f32(7, -2), dtype, true);
}

}  // namespace attacca::import
