#include "run/gemm_graph.hpp"

#include <map>
#include <optional>

#include "fmt/format.h"

#include "ir/graph/product_dtype.hpp"
#include "ir/text/compose.hpp"

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
    ATTACCA_TRY_VOID(check_gate());
    ATTACCA_TRY_VOID(add_product());
    for (uint32_t id = 0; id < text_.graph.size(); ++id) ATTACCA_TRY_VOID(add(Value{id}));
    for (size_t i = 0; i < text_.graph.outputs().size(); ++i) ATTACCA_TRY_VOID(add_output(i));
    return std::move(graph_);
  }

 private:
  Status check_gate() const {
    if (form_.gate == Gate::None || text_.graph.find("acc1")) return {};
    return fail("the weights lie as those of a gate, and the epilogue does not read acc1",
                "<epilogue>", "write acc0 and acc1, or lay out the weights as nk or kn");
  }

  ir::Shape with_batch(ir::Shape shape) const {
    if (form_.batched) shape.insert(shape.begin(), Dim::symbol("B"));
    return shape;
  }

  Status add_product() {
    const Dim m = Dim::symbol("M"), n = Dim::symbol("N"), k = Dim::symbol("K");
    ATTACCA_TRY(a_, graph_.input("a", {form_.input, with_batch({m, k})}));
    const bool packed = form_.gate == Gate::Halves || form_.gate == Gate::Rows;
    const Dim rows = packed ? Dim(2) * n : n;
    ATTACCA_TRY(const Value b,
                add_weight("b", form_.b_is_nk ? ir::Shape{rows, k} : ir::Shape{k, n}));
    weights_ = {b};
    if (form_.gate == Gate::Two) {
      ATTACCA_TRY(const Value b1, add_weight("b1", {n, k}));
      weights_.push_back(b1);
    }
    if (form_.grouped) {
      ATTACCA_TRY(offsets_, graph_.input("offsets", {DType::S32, {Dim::symbol("E")}}));
    }
    return {};
  }

  Result<Value> add_weight(const std::string& name, ir::Shape shape) {
    if (form_.grouped) shape.insert(shape.begin(), Dim::symbol("E"));
    ATTACCA_TRY(const Value b, graph_.input(name, {form_.input, std::move(shape)}));
    if (!form_.b_is_nk) return b;
    return graph_.add(Op::Transpose, {b});
  }

  Result<Value> product(size_t weight, DType dtype) {
    const ir::MatMulAttrs attrs{dtype, form_.fast};
    if (form_.grouped)
      return graph_.add(Op::GroupedMatMul, {a_, weights_[weight], offsets_}, attrs);
    return graph_.add(Op::MatMul, {a_, weights_[weight]}, attrs);
  }

  // acc, acc0 or acc1.
  Result<Value> accumulator(bool second, DType dtype) {
    if (form_.gate == Gate::None || form_.gate == Gate::Two) return product(second ? 1 : 0, dtype);
    if (!packed_) {
      ATTACCA_TRY(packed_, product(0, dtype));
    }
    const Dim n = Dim::symbol("N");
    ir::PythonSlice part;
    if (form_.gate == Gate::Rows)
      part = {Dim(second ? 1 : 0), {}, 2};
    else if (second)
      part.begin = n;
    else
      part.end = n;
    std::vector<ir::PythonSlice> ranges(graph_.type(*packed_).shape.size());
    ranges.back() = part;
    return ir::slice(graph_, *packed_, ranges);
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
    if (node.name == "acc1" && form_.gate == Gate::None)
      return fail("acc1 without a second product", "<epilogue>",
                  "say how the weights of both lie: two, halves or rows");
    if (node.name == "acc" || node.name == "acc0" || node.name == "acc1") {
      ATTACCA_TRY(copies_[value], accumulator(node.name == "acc1", node.type.dtype));
      return {};
    }
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
    const std::string& name = text_.graph.outputs()[i].name;
    for (const ir::Output& output : graph_.outputs())
      if (output.name == name)
        return fail(fmt::format("output {} comes twice", name), "epilogue", "name it NAME = VALUE");
    graph_.add_output(result, name);
    return {};
  }

  const GemmForm& form_;
  const epilogue::TextEpilogue& text_;
  ir::Graph graph_;
  Value a_, offsets_;
  std::vector<Value> weights_;
  std::optional<Value> packed_;  // the product with both of a gate's weights
  std::map<Value, Value> copies_;
};

}  // namespace

Status set_layout(GemmForm& form, std::string_view layout) {
  struct Layout {
    std::string_view name;
    bool b_is_nk;
    Gate gate;
  };
  static constexpr Layout kLayouts[] = {{"nk", true, Gate::None},
                                        {"kn", false, Gate::None},
                                        {"two", true, Gate::Two},
                                        {"halves", true, Gate::Halves},
                                        {"rows", true, Gate::Rows}};
  constexpr std::string_view kGroups = "groups ";
  const bool grouped = layout.substr(0, kGroups.size()) == kGroups;
  for (const Layout& each : kLayouts) {
    if (each.name != (grouped ? layout.substr(kGroups.size()) : layout)) continue;
    form.grouped = grouped;
    form.b_is_nk = each.b_is_nk;
    form.gate = each.gate;
    return {};
  }
  return fail(fmt::format("unknown layout {}", layout), "b_layout",
              "nk (b: [N, K]) or kn (b: [K, N]); of a gate two (b, b1: [N, K]), halves or rows (b: "
              "[2 N, K]); of a grouped product the same behind \"groups \"");
}

Status set_product(GemmForm& form) {
  const auto decided = ir::product_dtype(form.input, form.input);
  if (!decided) return fail(decided.error().what, "dtype", "use a float, s8 or u8");
  const DType product = *decided;
  form.text.accumulator = ir::is_integer(product) ? product : DType::F32;
  form.text.product = product;
  return {};
}

Result<ir::Graph> gemm_graph(const GemmForm& form) {
  ATTACCA_TRY(const epilogue::TextEpilogue text, epilogue::parse_text(form.epilogue, form.text));
  return Builder(form, text).run();
}

}  // namespace attacca::run
