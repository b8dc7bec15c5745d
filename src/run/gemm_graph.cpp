#include "run/gemm_graph.hpp"

#include <map>

#include "ir/compose.hpp"

namespace attacca::run {
namespace {

using ir::Dim;
using ir::DType;
using ir::Op;
using ir::Value;

class Builder {
 public:
  Builder(const GemmForm& form, const epilogue::TextEpilogue& text) : form_(form), text_(text) {}

  Result<ir::Graph> run() {
    graph_.name = "gemm";
    ATTACCA_TRY_VOID(add_product());
    for (uint32_t id = 0; id < text_.graph.size(); ++id) ATTACCA_TRY_VOID(add(Value{id}));
    for (size_t i = 0; i < text_.graph.outputs().size(); ++i) ATTACCA_TRY_VOID(add_output(i));
    return std::move(graph_);
  }

 private:
  ir::Shape with_batch(ir::Shape shape) const {
    if (form_.batched) shape.insert(shape.begin(), Dim::symbol("B"));
    return shape;
  }

  Status add_product() {
    const Dim m = Dim::symbol("M"), n = Dim::symbol("N"), k = Dim::symbol("K");
    ATTACCA_TRY(const Value a, graph_.input("a", {form_.input, with_batch({m, k})}));
    ATTACCA_TRY(Value b, graph_.input("b", {form_.input,
                                            form_.b_is_nk ? ir::Shape{n, k} : ir::Shape{k, n}}));
    if (form_.b_is_nk) {
      ATTACCA_TRY(b, graph_.add(Op::Transpose, {b}));
    }
    operands_ = {a, b};
    return {};
  }

  Status add(Value value) {
    const ir::Node& node = text_.graph[value];
    if (node.op == Op::Input) return add_input(value, node);
    std::vector<Value> operands;
    for (const Value operand : node.operands) operands.push_back(copies_.at(operand));
    ATTACCA_TRY(copies_[value], ir::copy_node(graph_, node, std::move(operands)));
    return {};
  }

  Status add_input(Value value, const ir::Node& node) {
    if (node.name == "acc" || node.name == "acc0") {
      ir::Attrs attrs;
      attrs.dtype = node.type.dtype;
      ATTACCA_TRY(copies_[value], graph_.add(Op::MatMul, operands_, std::move(attrs)));
      return {};
    }
    if (node.name == "acc1")
      return fail("acc1 without a second product", "<epilogue>",
                  "write the graph in the text form");
    ir::Type type = node.type;
    const bool full = type.shape.size() == 2 && !type.shape[1].is(1);
    if (full) type.shape = with_batch(type.shape);
    ATTACCA_TRY(copies_[value], graph_.input(node.name, std::move(type)));
    return {};
  }

  Status add_output(size_t i) {
    Value result = copies_.at(text_.graph.outputs()[i].value);
    const DType wanted = text_.epilogue.outputs[i].dtype;
    if (graph_.type(result).dtype != wanted) {
      ATTACCA_TRY(result, ir::cast(graph_, result, wanted));
    }
    graph_.add_output(result, text_.graph.outputs()[i].name);
    return {};
  }

  const GemmForm& form_;
  const epilogue::TextEpilogue& text_;
  ir::Graph graph_;
  std::vector<Value> operands_;
  std::map<Value, Value> copies_;
};

}  // namespace

Result<ir::Graph> gemm_graph(const GemmForm& form) {
  ATTACCA_TRY(const epilogue::TextEpilogue text, epilogue::parse_text(form.epilogue, form.text));
  return Builder(form, text).run();
}

}  // namespace attacca::run
