#include "fold/quantized/dequantized.hpp"

#include <cmath>
#include <optional>
#include <utility>

#include "fold/quantized/rewriting.hpp"
#include "ir/text/compose.hpp"
#include "support/check.hpp"

namespace attacca::fold {
namespace {

using ir::Dim;
using ir::DType;
using ir::Op;
using ir::Value;

// With a larger K the s32 sum of products of differences of bytes may wrap.
constexpr int64_t kMostExactK = INT64_C(0x7FFFFFFF) / (255 * 255);

// An operand of a product, as transpose((q - zero) * scales...) or without the transpose.
struct Dequantized {
  Value q;
  std::vector<Value> scales;
  std::optional<Value> zero;
  bool transposed = false;
};

class Multiplier : Rewriting {
 public:
  explicit Multiplier(const ir::Graph& graph) : Rewriting(graph) {}

  FoldResult run() {
    return rewrite([&](Value, const ir::Node& node) {
      return node.op == Op::MatMul ? multiply(node) : copy(node);
    });
  }

 private:
  // ---- Recognition, in the original graph

  std::optional<Dequantized> operand(Value value, bool is_a, bool half = false) const {
    const bool transposed = from_[value].op == Op::Transpose;
    if (transposed) value = from_[value].operands[0];
    auto found = half ? half_chain(as_it_lies(value)) : chain(value);
    if (!found) return std::nullopt;
    found->transposed = transposed;
    // The axis of k, from the end.
    const size_t k_axis = is_a != transposed ? 1 : 2;
    const auto constant_along_k = [&](Value each) {
      const ir::Shape& extents = shape(each);
      return extents.size() < k_axis || extents[extents.size() - k_axis].is(1);
    };
    for (const Value scale : found->scales)
      if (!constant_along_k(scale)) return std::nullopt;
    if (found->zero && !constant_along_k(*found->zero)) return std::nullopt;
    return found;
  }

  // cast(q, f32), minus a zero point, times scales.
  std::optional<Dequantized> chain(Value value) const {
    const ir::Node& node = from_[value];
    if (node.type.dtype != DType::F32) return std::nullopt;
    if (node.op == Op::Cast) {
      const Value q = node.operands[0];
      const DType dtype = from_.type(q).dtype;
      if (!ir::is_byte(dtype) && !ir::is_fp8(dtype)) return std::nullopt;
      return Dequantized{.q = q, .scales = {}, .zero = {}};
    }
    if (node.compute().value_or(DType::F32) != DType::F32) return std::nullopt;
    if (node.op == Op::Sub) return shifted(node, true);
    if (node.op != Op::Mul) return std::nullopt;
    for (const size_t at : {0, 1}) {
      auto found = chain(node.operands[at]);
      const Value scale = node.operands[1 - at];
      if (!found || !(shape(found->q) == node.type.shape) || from_.type(scale).dtype != DType::F32)
        continue;
      found->scales.push_back(scale);
      return found;
    }
    return std::nullopt;
  }

  // Without reshapes to the same shape.
  Value as_it_lies(Value value) const {
    while (from_[value].op == Op::Reshape && shape(from_[value].operands[0]) == shape(value))
      value = from_[value].operands[0];
    return value;
  }

  // The same of bytes, in or rounded to 16 bits at any place.
  std::optional<Dequantized> half_chain(Value value) const {
    const ir::Node& node = from_[value];
    if (node.type.dtype != DType::F32 && !ir::is_half(node.type.dtype)) return std::nullopt;
    if (node.op == Op::Cast) {
      const Value source = node.operands[0];
      if (ir::is_byte(from_.type(source).dtype))
        return Dequantized{.q = source, .scales = {}, .zero = {}};
      return half_chain(source);
    }
    if (node.compute().value_or(DType::F32) != DType::F32) return std::nullopt;
    if (node.op == Op::Sub) return shifted(node, false);
    if (node.op != Op::Mul) return std::nullopt;
    for (const size_t at : {0, 1}) {
      const Value scale = node.operands[1 - at];
      const DType dtype = from_.type(scale).dtype;
      auto found = half_chain(node.operands[at]);
      if (!found || !(shape(found->q) == node.type.shape) ||
          (dtype != DType::F32 && !ir::is_half(dtype)))
        continue;
      found->scales.push_back(scale);
      return found;
    }
    return std::nullopt;
  }

  // `exact`: the products are summed in s32.
  std::optional<Dequantized> shifted(const ir::Node& node, bool exact) const {
    const ir::Node& wide = from_[node.operands[0]];
    const Value zero = node.operands[1];
    if (wide.op != Op::Cast || !ir::is_byte(from_.type(wide.operands[0]).dtype) ||
        !(shape(wide.operands[0]) == node.type.shape))
      return std::nullopt;
    const Value q = wide.operands[0];
    if (!is_zero_point(zero, exact ? std::optional(from_.type(q).dtype) : std::nullopt))
      return std::nullopt;
    Dequantized found{.q = q, .scales = {}, .zero = {}};
    if (!is_all_zero(zero)) found.zero = zero;
    return found;
  }

  // Values of this dtype, with which differences from its codes are at most 255 (kMostExactK); if
  // none is given, whole numbers of a byte's range.
  bool is_zero_point(Value value, std::optional<DType> codes) const {
    const ir::Node& node = from_[value];
    const auto fits = [codes](double x) {
      if (codes) return static_cast<double>(ir::to_integer(*codes, x)) == x;
      return x == std::trunc(x) && std::fabs(x) <= 255;
    };
    if (node.literal) return fits(node.literal->value);
    if (node.op == Op::Cast) {
      const DType dtype = from_.type(node.operands[0]).dtype;
      return codes ? dtype == *codes : ir::is_byte(dtype);
    }
    if (!node.tensor || !node.tensor->is_contiguous()) return false;
    for (int64_t i = 0; i < node.tensor->size(); ++i)
      if (!fits(node.tensor->number_at(i))) return false;
    return true;
  }

  // The zero point as its author wrote it, before the cast.
  Value narrow(Value zero) const {
    return from_[zero].op == Op::Cast ? from_[zero].operands[0] : zero;
  }

  bool is_all_zero(Value value) const {
    const ir::Node& node = from_[narrow(value)];
    if (node.literal) return node.literal->value == 0;
    if (!node.tensor) return false;
    for (int64_t i = 0; i < node.tensor->size(); ++i)
      if (node.tensor->number_at(i) != 0) return false;
    return true;
  }

  // ---- Rewriting, in the new graph

  Value multiply(const ir::Node& node) {
    if (ir::is_half(from_.type(node.operands[0]).dtype)) return multiply_half(node);
    const auto a = operand(node.operands[0], true), b = operand(node.operands[1], false);
    if (!a || !b) return copy(node);
    const bool bytes = ir::is_byte(from_.type(a->q).dtype);
    const auto k = shape(node.operands[0]).back().maybe_value();
    if (bytes != ir::is_byte(from_.type(b->q).dtype) || (bytes && (!k || *k > kMostExactK)))
      return copy(node);
    const Value qa = placed(a->q, *a), qb = placed(b->q, *b);
    Value product = add(Op::MatMul, {qa, qb});
    if (bytes)
      product =
          must(ir::cast(into(), without_zero_points(product, *a, *b, qa, qb, *k), DType::F32));
    for (const Dequantized* each : {&*a, &*b})
      for (const Value scale : each->scales)
        product = add(Op::Mul, {product, placed(scale, *each)});
    const Value result = must(ir::cast(into(), product, node.type.dtype));
    ATTACCA_CHECK(into().type(result) == node.type, "a quantised product of another type");
    result_.applied.push_back(
        {"quantized product", bytes ? "matmul of bytes" : "matmul of 8-bit floats"});
    return result;
  }

  // B's zero points and scales after the product.
  Value multiply_half(const ir::Node& node) {
    const DType half = from_.type(node.operands[0]).dtype;
    const auto b = operand(node.operands[1], false, true);
    if (!b || (b->scales.empty() && !b->zero) || from_.type(node.operands[1]).dtype != half)
      return copy(node);
    // Two dequantised factors that the graph rounds stay as they are.
    if (operand(node.operands[0], true, true)) return copy(node);
    ir::MatMulAttrs attrs = node.get<ir::MatMulAttrs>();
    attrs.dtype = DType::F32;
    Value product = add(
        Op::MatMul,
        {moved_[node.operands[0].id], turned(must(ir::cast(into(), moved_[b->q.id], half)), *b)},
        attrs);
    if (b->zero)
      product =
          add(Op::Sub, {product, add(Op::Mul, {sums(moved_[node.operands[0].id], 1, DType::F32),
                                               zero_of(*b, DType::F32)})});
    for (const Value scale : b->scales)
      product = add(Op::Mul, {product, must(ir::cast(into(), placed(scale, *b), DType::F32))});
    const Value result = must(ir::cast(into(), product, node.type.dtype));
    ATTACCA_CHECK(into().type(result) == node.type, "a product of bytes of another type");
    result_.applied.push_back({"quantized product", "matmul of 16 bits and bytes"});
    return result;
  }

  // A part of a dequantised operand with the strides that it has in the product.
  Value placed(Value value, const Dequantized& operand) {
    return turned(moved_[value.id], operand);
  }
  Value turned(Value moved, const Dequantized& operand) {
    const ir::Shape extents = into().type(moved).shape;
    if (!operand.transposed || extents.empty()) return moved;
    if (extents.size() > 1) return add(Op::Transpose, {moved});
    return add(Op::Reshape, {moved}, ir::ShapeAttrs{{extents[0], Dim(1)}});
  }

  Value zero_of(const Dequantized& operand, DType dtype = DType::S32) {
    const Value zero = narrow(*operand.zero);
    if (from_[zero].literal) return into().literal(from_[zero].literal->value, dtype);
    return must(ir::cast(into(), placed(zero, operand), dtype));
  }

  Value without_zero_points(Value product, const Dequantized& a, const Dequantized& b, Value qa,
                            Value qb, int64_t k) {
    std::optional<Value> zero_b;
    if (b.zero) {
      zero_b = zero_of(b);
      product = add(Op::Sub, {product, add(Op::Mul, {sums(qa, 1), *zero_b})});
    }
    if (!a.zero) return product;
    Value columns = sums(qb, 2);
    if (zero_b)
      columns = add(Op::Sub,
                    {columns, must(ir::binary(into(), Op::Mul, *zero_b, static_cast<double>(k)))});
    return add(Op::Sub, {product, add(Op::Mul, {zero_of(a), columns})});
  }

  // Along an axis, from the end; of constant bytes by themselves.
  Value sums(Value q, int64_t axis, DType dtype = DType::S32) {
    if (dtype == DType::S32)
      if (auto known = constant_sums(q, axis)) return *known;
    const int64_t along = static_cast<int64_t>(into().type(q).shape.size()) - axis;
    return add(Op::Sum, {must(ir::cast(into(), q, dtype))}, ir::ReductionAttrs{{along}, true});
  }

  std::optional<Value> constant_sums(Value q, int64_t axis) {
    const bool transposed = into()[q].op == Op::Transpose;
    const ir::Node& node = into()[transposed ? into()[q].operands[0] : q];
    if (!node.tensor || node.tensor->shape().size() != 2) return std::nullopt;
    const ir::Tensor& tensor = *node.tensor;
    // The summed axis of the tensor as it is stored.
    const size_t summed = (axis == 2) != transposed ? 0 : 1, kept = 1 - summed;
    const int64_t count = tensor.shape()[kept];
    auto made = ir::Tensor::make(
        DType::S32, axis == 2 ? std::vector<int64_t>{1, count} : std::vector<int64_t>{count, 1});
    if (!made) return std::nullopt;
    for (int64_t i = 0; i < count; ++i) {
      int64_t sum = 0;
      for (int64_t j = 0; j < tensor.shape()[summed]; ++j)
        sum += tensor.integer_at(i * tensor.strides()[kept] + j * tensor.strides()[summed]);
      made->set_integer(i, sum);
    }
    return into().constant(*std::move(made));
  }
};

}  // namespace

FoldResult multiply_quantized(const ir::Graph& graph) {
  return Multiplier(graph).run();
}

}  // namespace attacca::fold
