#include "fold/quantized/decoded.hpp"

#include <algorithm>
#include <optional>

#include "fold/quantized/rewriting.hpp"
#include "ir/interpret/codes.hpp"

namespace attacca::fold {
namespace {

class Decoder : Rewriting {
 public:
  explicit Decoder(const ir::Graph& graph) : Rewriting(graph) {}

  FoldResult run() {
    return rewrite([&](ir::Value, const ir::Node& node) {
      auto weights = decoded(node);
      return weights ? into().constant(*std::move(weights)) : copy(node);
    });
  }

 private:
  std::optional<ir::Tensor> decoded(const ir::Node& node) const {
    if (node.op != ir::Op::Decode) return std::nullopt;
    std::vector<ir::Tensor> operands;
    for (const ir::Value operand : node.operands) {
      if (!from_[operand].tensor) return std::nullopt;
      auto dense = from_[operand].tensor->contiguous();
      if (!dense) return std::nullopt;
      operands.push_back(*std::move(dense));
    }
    std::vector<int64_t> shape;
    for (const ir::Dim& extent : node.type.shape) shape.push_back(extent.value());
    auto weights = ir::Tensor::make(node.type.dtype, std::move(shape));
    if (!weights) return std::nullopt;
    const ir::CodeMemory from{operands[0].data(), operands[1].data(),
                              operands.size() > 2 ? operands[2].data() : nullptr};
    ir::decode(*ir::code_format(from_, node), from, weights->size(), weights->data());
    return *std::move(weights);
  }
};

}  // namespace

FoldResult decode_constants(const ir::Graph& graph) {
  const auto decodes = [](const ir::Node& node) { return node.op == ir::Op::Decode; };
  if (std::none_of(graph.nodes().begin(), graph.nodes().end(), decodes)) return {graph, {}};
  return Decoder(graph).run();
}

}  // namespace attacca::fold
