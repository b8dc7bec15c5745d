#include "fold/rows/gathers.hpp"

#include "fold/quantized/rewriting.hpp"

namespace attacca::fold {
namespace {

using ir::Op;
using ir::Value;

class Composer : Rewriting {
 public:
  explicit Composer(const ir::Graph& graph) : Rewriting(graph) {}

  FoldResult run() {
    return rewrite([&](Value, const ir::Node& node) {
      if (!chooses_rows(from_, node)) return copy(node);
      const ir::Node& inner = into()[moved_[node.operands[0].id]];
      if (!chooses_rows(into(), inner)) return copy(node);
      const Value table = inner.operands[0], first = inner.operands[1];
      const Value index = add(Op::Gather, {first, moved_[node.operands[1].id]}, ir::AxisAttrs{0});
      return add(Op::Gather, {table, index}, ir::AxisAttrs{0});
    });
  }

 private:
  static bool chooses_rows(const ir::Graph& graph, const ir::Node& node) {
    return node.op == Op::Gather && node.get<ir::AxisAttrs>().axis == 0 &&
           graph.type(node.operands[0]).shape.size() == 2 &&
           graph.type(node.operands[1]).shape.size() == 1;
  }
};

}  // namespace

FoldResult compose_gathers(const ir::Graph& graph) {
  return Composer(graph).run();
}

}  // namespace attacca::fold
