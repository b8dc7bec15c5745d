#include "fold/quantized/requantized.hpp"

#include <cmath>
#include <optional>
#include <vector>

#include "fold/quantized/rewriting.hpp"

namespace attacca::fold {
namespace {

using ir::DType;
using ir::Op;
using ir::Value;

// A scale and a zero point.
struct Grid {
  double scale = 1, zero = 0;
  friend bool operator==(const Grid&, const Grid&) = default;
};

bool is_view(Op op) {
  return op == Op::Reshape || op == Op::Transpose || op == Op::Permute || op == Op::Slice ||
         op == Op::Broadcast;
}

class Remover : Rewriting {
 public:
  explicit Remover(const ir::Graph& graph) : Rewriting(graph) {}

  FoldResult run() {
    return rewrite([&](Value, const ir::Node& node) {
      const auto bytes = requantized(node);
      return bytes ? *bytes : copy(node);
    });
  }

 private:
  // The operand of an f32 op at `value`, or nullptr if it is another op.
  const ir::Node* f32_op(Value value, Op op) const {
    const ir::Node& node = from_[value];
    const bool plain = node.op == op && node.type.dtype == DType::F32 &&
                       node.compute().value_or(DType::F32) == DType::F32;
    return plain ? &node : nullptr;
  }

  // A constant of one element; behind casts that do not change it.
  std::optional<double> number(Value value) const {
    const ir::Node& node = from_[value];
    if (node.literal) return static_cast<float>(node.literal->value);
    if (node.op == Op::Cast && ir::is_integer(from_.type(node.operands[0]).dtype)) {
      const auto x = number(node.operands[0]);
      const bool kept = x && (!ir::is_integer(node.type.dtype) ||
                              static_cast<double>(ir::to_integer(node.type.dtype, *x)) == *x);
      return kept ? x : std::nullopt;
    }
    if (!node.tensor || node.tensor->size() != 1) return std::nullopt;
    return node.tensor->number_at(0);
  }

  std::optional<double> scale(Value value) const {
    constexpr double kLeast = 0x1p-100, kMost = 0x1p100;  // products and quotients stay normal
    const auto s = number(value);
    return s && from_.type(value).dtype == DType::F32 && *s >= kLeast && *s <= kMost ? s
                                                                                     : std::nullopt;
  }
  std::optional<double> zero_point(Value value) const {
    const auto z = number(value);
    return z && *z == std::trunc(*z) && std::fabs(*z) <= 255 ? z : std::nullopt;
  }

  // What cast(round(x / scale) + zero) quantises, and to which grid.
  std::optional<Value> quantized(const ir::Node& cast, Grid& grid) const {
    if (cast.op != Op::Cast || !ir::is_byte(cast.type.dtype) || !cast.saturates())
      return std::nullopt;
    Value value = cast.operands[0];
    if (const ir::Node* sum = f32_op(value, Op::Add)) {
      const auto zero = zero_point(sum->operands[1]);
      if (!zero) return std::nullopt;
      grid.zero = *zero;
      value = sum->operands[0];
    }
    const ir::Node* round = f32_op(value, Op::Round);
    const ir::Node* quotient = round ? f32_op(round->operands[0], Op::Div) : nullptr;
    const auto divisor = quotient ? scale(quotient->operands[1]) : std::nullopt;
    if (!divisor || !(shape(quotient->operands[0]) == cast.type.shape)) return std::nullopt;
    grid.scale = *divisor;
    return quotient->operands[0];
  }

  // The bytes that (cast(q, f32) - zero) * scale dequantises, and from which grid.
  std::optional<Value> dequantized(Value value, Grid& grid) const {
    const ir::Node* product = f32_op(value, Op::Mul);
    const auto factor = product ? scale(product->operands[1]) : std::nullopt;
    if (!factor) return std::nullopt;
    grid.scale = *factor;
    Value shifted = product->operands[0];
    if (const ir::Node* difference = f32_op(shifted, Op::Sub)) {
      const auto zero = zero_point(difference->operands[1]);
      if (!zero) return std::nullopt;
      grid.zero = *zero;
      shifted = difference->operands[0];
    }
    const ir::Node* cast = f32_op(shifted, Op::Cast);
    if (!cast || !(shape(cast->operands[0]) == product->type.shape)) return std::nullopt;
    return cast->operands[0];
  }

  std::optional<Value> requantized(const ir::Node& cast) {
    Grid to, from;
    auto value = quantized(cast, to);
    if (!value) return std::nullopt;
    std::vector<const ir::Node*> views;
    for (; is_view(from_[*value].op); value = from_[*value].operands[0])
      views.push_back(&from_[*value]);
    const auto bytes = dequantized(*value, from);
    if (!bytes || !(to == from) || from_.type(*bytes).dtype != cast.type.dtype) return std::nullopt;
    Value result = moved_[bytes->id];
    for (size_t i = views.size(); i-- > 0;) result = add(views[i]->op, {result}, views[i]->attrs);
    result_.applied.push_back({"requantized", "the same bytes"});
    return result;
  }
};

}  // namespace

FoldResult drop_requantized(const ir::Graph& graph) {
  return Remover(graph).run();
}

}  // namespace attacca::fold
