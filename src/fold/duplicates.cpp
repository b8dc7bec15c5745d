#include "fold/duplicates.hpp"

#include <bit>
#include <map>
#include <utility>
#include <vector>

#include "fold/quantized/rewriting.hpp"

namespace attacca::fold {
namespace {

using ir::Op;
using ir::Value;

class Merger : Rewriting {
 public:
  explicit Merger(const ir::Graph& graph) : Rewriting(graph) {}

  FoldResult run() {
    return rewrite([&](Value, const ir::Node& node) {
      if (node.op == Op::Input || node.op == Op::Constant || node.op == Op::Kernel)
        return copy(node);
      std::vector<uint32_t> operands;
      for (const Value operand : node.operands) operands.push_back(id_of(operand));
      auto& alike = known_[{node.op, std::move(operands)}];
      for (const Value each : alike)
        if (into()[each].attrs == node.attrs && into().type(each) == node.type) return each;
      return alike.emplace_back(copy(node));
    });
  }

 private:
  // Equal numbers are one operand, though each is a node of its own.
  uint32_t id_of(Value operand) {
    const ir::Node& node = from_[operand];
    if (!node.literal) return moved_[operand.id].id;
    const auto key = std::pair(std::bit_cast<uint64_t>(node.literal->value), node.type.dtype);
    return literals_.try_emplace(key, moved_[operand.id].id).first->second;
  }

  std::map<std::pair<Op, std::vector<uint32_t>>, std::vector<Value>> known_;
  std::map<std::pair<uint64_t, ir::DType>, uint32_t> literals_;
};

}  // namespace

FoldResult merge_duplicates(const ir::Graph& graph) {
  return Merger(graph).run();
}

}  // namespace attacca::fold
