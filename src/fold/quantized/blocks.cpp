#include "fold/quantized/blocks.hpp"

#include <optional>
#include <utility>

#include "fold/quantized/rewriting.hpp"

namespace attacca::fold {
namespace {

using ir::Dim;
using ir::DType;
using ir::Op;
using ir::Shape;
using ir::Value;

// A shape after each of its axes was kept or cut into blocks: [M, K] as [M, K/128, 128].
struct Cut {
  std::vector<int64_t> block;  // of each axis; 1: kept
  Shape blocks;                // how many, of each axis
  Shape scales;  // the shape with one number for each block, which broadcasts over the cut shape
};

std::optional<Cut> cut_of(const Shape& whole, const Shape& cut) {
  Cut result;
  size_t at = 0;
  for (const Dim& extent : whole) {
    if (at >= cut.size()) return std::nullopt;
    const Dim count = cut[at++];
    int64_t block = 1;
    if (!(count == extent)) {
      if (at == cut.size() || !extent.is_static() || !cut[at].is_static()) return std::nullopt;
      block = cut[at++].value();
      if (!(count * Dim(block) == extent)) return std::nullopt;
    }
    result.block.push_back(block);
    result.blocks.push_back(count);
    result.scales.push_back(count);
    if (block != 1) result.scales.push_back(1);
  }
  const bool cuts = result.scales.size() > whole.size();
  if (at != cut.size() || !cuts) return std::nullopt;
  return result;
}

struct Blocks {
  Value q, scale;
  Cut cut;
};

class Recovery : Rewriting {
 public:
  explicit Recovery(const ir::Graph& graph) : Rewriting(graph) {}

  FoldResult run() {
    return rewrite([&](Value value, const ir::Node& node) {
      const auto blocks = blocks_of(value);
      return blocks ? scaled(*blocks) : copy(node);
    });
  }

 private:
  Value scaled(const Blocks& found) {
    Value scale = moved_[found.scale.id];
    if (!(shape(found.scale) == found.cut.blocks))
      scale = add(Op::Reshape, {scale}, ir::ShapeAttrs{found.cut.blocks});
    result_.applied.push_back({"scaled blocks", "scale_blocks"});
    return add(Op::ScaleBlocks, {moved_[found.q.id], scale}, ir::BlocksAttrs{found.cut.block});
  }

  bool is_f32(Op op, const ir::Node& node) const {
    return node.op == op && node.type.dtype == DType::F32 &&
           node.compute().value_or(DType::F32) == DType::F32;
  }

  std::optional<Blocks> blocks_of(Value value) const {
    const ir::Node& node = from_[value];
    if (is_f32(Op::Reshape, node)) {
      const Value product = node.operands[0];
      const auto cut = cut_of(node.type.shape, shape(product));
      return cut && is_f32(Op::Mul, from_[product])
                 ? of_factors(from_[product], node.type.shape, *cut, false)
                 : std::nullopt;
    }
    if (!is_f32(Op::Mul, node)) return std::nullopt;
    return of_factors(node, node.type.shape, {}, true);
  }

  // `repeated`: the scales are repeated to the whole shape; otherwise the numbers are cut.
  std::optional<Blocks> of_factors(const ir::Node& product, const Shape& whole, Cut cut,
                                   bool repeated) const {
    for (const size_t at : {0, 1}) {
      const auto q = widened(product.operands[at], whole);
      std::optional<Value> scale = product.operands[1 - at];
      if (repeated) scale = repeat_of(*scale, whole, cut);
      if (!q || !scale || !(shape(*scale) == cut.scales) || from_.type(*scale).dtype != DType::F32)
        continue;
      return Blocks{*q, unshaped(*scale, cut), cut};
    }
    return std::nullopt;
  }

  // The operand, of this shape, of a cast to f32, behind a reshape or in front of one.
  std::optional<Value> widened(Value value, const Shape& whole) const {
    if (from_[value].op == Op::Reshape) value = from_[value].operands[0];
    if (from_[value].op != Op::Cast || from_.type(value).dtype != DType::F32) return std::nullopt;
    value = from_[value].operands[0];
    if (from_[value].op == Op::Reshape && !(shape(value) == whole))
      value = from_[value].operands[0];
    const DType dtype = from_.type(value).dtype;
    const bool taken = ir::is_fp8(dtype) || ir::is_byte(dtype);
    if (!taken || !(shape(value) == whole)) return std::nullopt;
    return value;
  }

  // The scales of the blocks, before they are repeated.
  std::optional<Value> repeat_of(Value value, const Shape& whole, Cut& cut) const {
    if (from_[value].op != Op::Reshape) return std::nullopt;
    const Value broadcast = from_[value].operands[0];
    const auto found = cut_of(whole, shape(broadcast));
    if (from_[broadcast].op != Op::Broadcast || !found) return std::nullopt;
    cut = *found;
    return from_[broadcast].operands[0];
  }

  // The operand of a reshape that only inserts axes of 1.
  Value unshaped(Value scale, const Cut& cut) const {
    const ir::Node& node = from_[scale];
    return node.op == Op::Reshape && shape(node.operands[0]) == cut.blocks ? node.operands[0]
                                                                           : scale;
  }
};

}  // namespace

FoldResult recover_blocks(const ir::Graph& graph) {
  return Recovery(graph).run();
}

}  // namespace attacca::fold
