#include <random>

#include "differential/random_graph.hpp"
#include "support/check.hpp"

namespace attacca::testing {
namespace {

using ir::DType;
using ir::Op;
using ir::Shape;
using ir::Value;

class Projections {
 public:
  explicit Projections(uint64_t seed) : random_(seed) {
    dtype_ = std::vector{DType::F32, DType::F32, DType::F16, DType::BF16}[pick(4)];
    rows_ = 1 + pick(9);
    k_ = 1 + pick(12);
    heads_ = 1 + pick(3);
    width_ = 2 * (1 + pick(6));
    batch_ = pick(3);
  }

  ir::Graph make() {
    Shape shape{rows_, k_};
    if (batch_ > 0) shape.insert(shape.begin(), batch_);
    x_ = must(graph_.input("x", {dtype_, std::move(shape)}));
    tail_ = pick(6);
    biases_ = pick(2) == 0;
    const int64_t count = 2 + pick(3);
    std::vector<Value> results;
    for (int64_t i = 0; i < count; ++i) results.push_back(projection());
    const Value q = heads_of(results[0]), k = heads_of(results[1]);
    const Value scores = add(Op::MatMul, {q, add(Op::Transpose, {k})});
    graph_.add_output(results.size() > 2 ? add(Op::MatMul, {scores, heads_of(results[2])})
                                         : scores);
    if (results.size() > 3) read(results[3]);
    if (pick(5) == 0) graph_.add_output(results[static_cast<size_t>(pick(count))]);
    return std::move(graph_);
  }

 private:
  int64_t pick(int64_t below) {
    return static_cast<int64_t>(random_() % static_cast<uint64_t>(below));
  }

  static Value must(Result<Value> made) {
    ATTACCA_CHECK(made.has_value(), "generator made a bad node");
    return *made;
  }
  Value add(Op op, std::vector<Value> operands, ir::Attrs attrs = {}) {
    return must(graph_.add(op, std::move(operands), std::move(attrs)));
  }

  Value constant(std::vector<int64_t> shape) {
    ir::Tensor tensor = *ir::Tensor::make(dtype_, std::move(shape));
    std::normal_distribution<double> normal(0, 1);
    for (int64_t i = 0; i < tensor.size(); ++i) tensor.set_number(i, normal(random_));
    return graph_.constant(std::move(tensor));
  }

  // x @ w, in most graphs with the tail that the others have.
  Value projection() {
    const int64_t n = heads_ * width_;
    Value w = pick(2) == 0 ? add(Op::Transpose, {constant({n, k_})}) : constant({k_, n});
    Value result = add(Op::MatMul, {x_, w});
    if (biases_ != (pick(12) == 0)) result = add(Op::Add, {result, constant({n})});
    switch (pick(12) == 0 ? pick(6) : tail_) {
      case 0:
        return add(Op::Mul, {result, constant({})});
      case 1:
        return add(Op::Mul, {graph_.literal(static_cast<double>(pick(3)) - 0.75, dtype_), result});
      case 2:
        return add(Op::Silu, {result});
      default:
        return result;
    }
  }

  // [batch, rows, heads * width] as [batch, heads, rows, width].
  Value heads_of(Value value) {
    Shape shape{rows_, heads_, width_};
    std::vector<int64_t> axes{1, 0, 2};
    if (batch_ > 0) {
      shape.insert(shape.begin(), batch_);
      axes = {0, 2, 1, 3};
    }
    const Value split = add(Op::Reshape, {value}, ir::ShapeAttrs{std::move(shape)});
    return add(Op::Permute, {split}, ir::PermuteAttrs{std::move(axes)});
  }

  void read(Value value) {
    switch (pick(3)) {
      case 0:
        return graph_.add_output(
            add(Op::Sum, {value}, ir::ReductionAttrs{{batch_ > 0 ? 1 : 0}, false}));
      case 1:
        return graph_.add_output(add(Op::Concat, {value, value}, ir::AxisAttrs{0}));
      default:
        return graph_.add_output(add(Op::Mul, {heads_of(value), constant({width_})}));
    }
  }

  std::mt19937_64 random_;
  ir::Graph graph_;
  DType dtype_ = DType::F32;
  int64_t rows_ = 1, k_ = 1, heads_ = 1, width_ = 2, batch_ = 0, tail_ = 0;
  bool biases_ = false;
  Value x_;
};

}  // namespace

ir::Graph random_projections(uint64_t seed) {
  return ir::without_dead_nodes(Projections(seed).make());
}

}  // namespace attacca::testing
