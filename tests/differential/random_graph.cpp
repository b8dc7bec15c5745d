#include "differential/random_graph.hpp"

#include <cmath>
#include <random>

#include "fmt/format.h"

#include "support/check.hpp"

namespace attacca::testing {
namespace {

using ir::Dim;
using ir::DType;
using ir::Op;
using ir::OpInfo;
using ir::Shape;
using ir::TypeRule;
using ir::Value;

// Rows of the tables that are gathered from and added to.
constexpr int64_t kTableRows = 5;

class Generator {
 public:
  explicit Generator(uint64_t seed) : random_(seed) {
    m_ = pick({1, 1, 2, 3, 5, 8, 17, 0});
    n_ = 2 * pick({1, 2, 4, 8, 9, 16, 33});
    k_ = pick({1, 2, 3, 8, 13, 32});
  }

  ir::Graph make() {
    add_product();
    if (chance(4)) add_product();
    if (chance(4)) add_gate();
    const int64_t steps = 1 + pick(9);
    for (int64_t i = 0; i < steps; ++i) add_step();
    add_outputs();
    return std::move(graph_);
  }

 private:
  int64_t pick(int64_t below) {
    return static_cast<int64_t>(random_() % static_cast<uint64_t>(below));
  }
  int64_t pick(std::initializer_list<int64_t> from) {
    return from.begin()[pick(static_cast<int64_t>(from.size()))];
  }
  bool chance(int64_t one_in) { return pick(one_in) == 0; }

  DType pick_float() {
    constexpr DType kFloats[] = {DType::F32, DType::F32, DType::BF16, DType::F16};
    return kFloats[pick(4)];
  }

  Value input(DType dtype, Shape shape) {
    auto value =
        graph_.input(fmt::format("x{}", graph_.inputs().size()), {dtype, std::move(shape)});
    ATTACCA_CHECK(value.has_value(), "generator made a bad input");
    return *value;
  }

  // The node, or nullopt if the type rules refuse it; the step is then skipped.
  std::optional<Value> add(Op op, std::vector<Value> operands, ir::Attrs attrs = {}) {
    auto value = graph_.add(op, std::move(operands), std::move(attrs));
    if (!value) return std::nullopt;
    return *value;
  }

  void keep(std::optional<Value> value) {
    if (value) pool_.push_back(*value);
  }

  // Rows by the matrices of groups. A second one may share the first's rows and groups: a gate.
  void add_grouped_product() {
    const int64_t groups = 1 + pick(4);
    const bool transposed = chance(2), again = shared_offsets_ && chance(2);
    const DType dtype = pick_float();
    const Value rows = again       ? *shared_a_
                       : chance(2) ? rows_of_table(dtype, k_)
                                   : input(dtype, {m_, k_});
    if (!again) shared_offsets_ = input(DType::S32, {groups});
    shared_a_ = rows;
    const Dim count = graph_.type(*shared_offsets_).shape[0];
    Value matrices =
        input(graph_.type(rows).dtype, transposed ? Shape{count, n_, k_} : Shape{count, k_, n_});
    if (transposed) matrices = *add(Op::Transpose, {matrices});
    const auto product = add(Op::GroupedMatMul, {rows, matrices, *shared_offsets_});
    ATTACCA_CHECK(product.has_value(), "generator made a bad grouped product");
    keep(product);
  }

  // Rows that a random index chooses, or the row of the group.
  Value index() {
    if (shared_offsets_ && chance(2))
      return *add(Op::GroupIds, {*shared_offsets_}, ir::ShapeAttrs{{m_}});
    return input(DType::S64, {m_});
  }
  Value rows_of_table(DType dtype, const Dim& columns) {
    if (shared_offsets_ && chance(2)) {  // a row for each group
      const Value table = input(dtype, {graph_.type(*shared_offsets_).shape[0], columns});
      const Value ids = *add(Op::GroupIds, {*shared_offsets_}, ir::ShapeAttrs{{m_}});
      return *add(Op::Gather, {table, ids}, ir::AxisAttrs{0});
    }
    const Value table = input(dtype, {kTableRows, columns});
    return *add(Op::Gather, {table, index()}, ir::AxisAttrs{0});
  }

  // The rows of a value, added to a table.
  void add_to_table(Value x) {
    const ir::Type& type = graph_.type(x);
    if (graph_[x].literal || type.shape.size() != 2 || !(type.shape[0] == Dim(m_)) ||
        !ir::is_float(type.dtype) || ir::is_fp8(type.dtype))
      return;
    const Dim columns = type.shape[1];
    const Value table = input(type.dtype, {kTableRows, columns});
    if (const auto added = add(Op::ScatterAdd, {table, index(), x})) graph_.add_output(*added);
  }

  void add_product() {
    if (chance(6)) return add_grouped_product();
    shared_offsets_.reset();
    const bool integers = chance(6);
    const DType dtype = integers ? DType::S8 : pick_float();
    const bool transposed_b = chance(2), transposed_a = !integers && chance(8);
    const int64_t batch = chance(6) ? 1 + pick(3) : 0;
    Shape a{m_, k_}, b{k_, n_};
    if (transposed_a) std::swap(a[0], a[1]);
    if (transposed_b) std::swap(b[0], b[1]);
    if (batch) a.insert(a.begin(), batch);
    if (batch && chance(2)) b.insert(b.begin(), batch);
    // The second product may share the first's A: the shape of a gated MLP.
    Value left = input(dtype, a);
    if (shared_a_ && graph_.type(*shared_a_) == graph_.type(left) && chance(2)) left = *shared_a_;
    shared_a_ = left;
    std::optional<Value> lhs = left, rhs = input(dtype, b);
    if (transposed_a) lhs = add(Op::Transpose, {*lhs});
    if (transposed_b) rhs = add(Op::Transpose, {*rhs});
    std::optional<Value> product = add(Op::MatMul, {*lhs, *rhs});
    ATTACCA_CHECK(product.has_value(), "generator made a bad product");
    if (integers) {
      keep(add(Op::Cast, {*product}, ir::CastAttrs{pick_float()}));
      if (chance(4)) keep(product);
    } else {
      keep(product);
    }
  }

  // Two halves, or every other column, of one value.
  void add_gate() {
    const Value x = pool_.back();
    const Shape& shape = graph_.type(x).shape;
    if (!ir::is_float(graph_.type(x).dtype)) return;
    const bool interleaved = chance(2);
    const int64_t columns = shape.back().value();
    ir::SliceAttrs gate, up;
    for (const Dim& dim : shape) gate.ranges.push_back({0, dim, 1});
    up = gate;
    gate.ranges.back() =
        interleaved ? ir::SliceRange{0, columns, 2} : ir::SliceRange{0, columns / 2, 1};
    up.ranges.back() =
        interleaved ? ir::SliceRange{1, columns, 2} : ir::SliceRange{columns / 2, columns, 1};
    const auto g = add(Op::Slice, {x}, gate), u = add(Op::Slice, {x}, up);
    if (!g || !u) return;
    const auto activated = add(chance(2) ? Op::Silu : Op::Gelu, {*g});
    keep(add(Op::Mul, {*activated, *u}));
    // Only the halves are used further: the whole values have other widths.
    pool_ = {pool_.back()};
  }

  Value operand_like(Value x) {
    const Shape& shape = graph_.type(x).shape;
    const DType dtype = chance(3) ? pick_float() : graph_.type(x).dtype;
    switch (pick(6)) {
      case 0:
        return graph_.literal(static_cast<double>(pick(9) - 4) / (ir::is_float(dtype) ? 2 : 1),
                              dtype);
      case 1:
        return input(dtype, {shape.back()});  // row
      case 2: {
        Shape column = shape;
        column.back() = 1;
        return input(dtype, column);
      }
      case 3:
        if (shape.size() == 2 && shape[0] == Dim(m_) && chance(2))
          return rows_of_table(dtype, shape[1]);
        return input(dtype, {});  // scalar
      case 4:
        return pool_[pick(static_cast<int64_t>(pool_.size()))];
      default:
        return input(dtype, shape);
    }
  }

  void add_step() {
    const Value x = pool_[pick(static_cast<int64_t>(pool_.size()))];
    switch (pick(12)) {
      case 0: {
        constexpr DType kTargets[] = {DType::F32, DType::BF16, DType::F16, DType::F8E4M3,
                                      DType::S8};
        ir::CastAttrs attrs{kTargets[pick(5)]};
        attrs.saturate = chance(2);
        const DType from = graph_.type(x).dtype;
        if (!attrs.saturate && ir::is_float(from) && ir::is_float(attrs.dtype) && chance(2))
          attrs.compute = DType::F32;
        const auto cast = add(Op::Cast, {x}, attrs);
        if (!cast) return;
        attrs.dtype = pick_float();
        keep(ir::is_float(attrs.dtype) && graph_.type(*cast).dtype != DType::F32
                 ? add(Op::Cast, {*cast}, attrs)
                 : cast);
        return;
      }
      case 1: {
        const auto condition = add(Op::Gt, {x, operand_like(x)});
        if (condition) keep(add(Op::Where, {*condition, x, operand_like(x)}));
        return;
      }
      case 2: {
        if (!chance(2)) return;
        const ir::ReductionAttrs attrs{{-1}, true};
        constexpr Op kReductions[] = {Op::Sum, Op::Mean, Op::ReduceMax, Op::AMax};
        const auto reduced = add(kReductions[pick(4)], {x}, attrs);
        if (reduced) keep(chance(2) ? add(Op::Mul, {x, *reduced}) : add(Op::Add, {*reduced, x}));
        return;
      }
      default:
        add_table_op(x);
    }
  }

  void add_table_op(Value x) {
    const auto rows = ir::all_ops();
    const OpInfo& row = rows[static_cast<size_t>(pick(static_cast<int64_t>(rows.size())))];
    if (!ir::is_elementwise(row.op) || row.rule == TypeRule::Logic ||
        row.rule == TypeRule::Compare || row.rule == TypeRule::Where)
      return;
    std::vector<Value> operands{x};
    if (row.max_arity == 2) operands.push_back(operand_like(x));
    if (row.max_arity == 2 && chance(2)) std::swap(operands[0], operands[1]);
    ir::ElementwiseAttrs attrs;
    if (row.op == Op::Clamp) attrs.params = {-2.0, 3.0};
    if (chance(10)) attrs.compute = DType::BF16;
    keep(add(row.op, std::move(operands), attrs));
  }

  void add_outputs() {
    if (chance(4)) add_to_table(pool_.back());
    graph_.add_output(pool_.back());
    while (chance(3)) {
      const Value value = pool_[pick(static_cast<int64_t>(pool_.size()))];
      if (!graph_[value].literal) graph_.add_output(value);
    }
  }

  std::mt19937_64 random_;
  ir::Graph graph_;
  int64_t m_ = 1, n_ = 2, k_ = 1;
  std::vector<Value> pool_;
  std::optional<Value> shared_a_;
  std::optional<Value> shared_offsets_;  // of the grouped product that made shared_a_
};

}  // namespace

ir::Graph random_graph(uint64_t seed) {
  return ir::without_dead_nodes(Generator(seed).make());
}

ir::Bindings random_bindings(const ir::Graph& graph, uint64_t seed) {
  std::mt19937_64 random(seed);
  const bool wild = random() % 8 == 0;
  std::normal_distribution<double> normal(0, 1);
  ir::Bindings bindings;
  for (const Value input : graph.inputs()) {
    const ir::Type& type = graph.type(input);
    std::vector<int64_t> shape;
    for (const Dim& dim : type.shape) shape.push_back(dim.value());
    auto tensor = ir::Tensor::make(type.dtype, shape);
    ATTACCA_CHECK(tensor.has_value(), "no memory for a test input");
    for (int64_t i = 0; i < tensor->size(); ++i) {
      constexpr double kWild[] = {NAN, INFINITY, -INFINITY, 0.0, -0.0, 1e30, 1e-40, 300.0};
      if (type.dtype == DType::S32)  // ends of groups: in any order, and beyond the rows
        tensor->set_integer(i, static_cast<int64_t>(random() % 24) - 2);
      else if (type.dtype == DType::S64)  // rows of a table, from the end too
        tensor->set_integer(i, static_cast<int64_t>(random() % (2 * kTableRows)) - kTableRows);
      else if (!ir::is_float(type.dtype))
        tensor->set_integer(i, static_cast<int64_t>(random() % 256));
      else if (wild && random() % 16 == 0)
        tensor->set_number(i, kWild[random() % 8]);
      else
        tensor->set_number(i, random() % 16 == 0 ? 0.0 : normal(random));
    }
    bindings.emplace(graph[input].name, *std::move(tensor));
  }
  return bindings;
}

}  // namespace attacca::testing
