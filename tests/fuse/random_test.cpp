// Random graphs: a partition is well formed and computes what the graph does.
#include <algorithm>
#include <cmath>
#include <random>
#include <stdexcept>

#include "fuse/views.hpp"
#include "fuse_testing.hpp"
#include "region_runner.hpp"
#include "setting.hpp"

namespace attacca::fuse::testing {
namespace {

using ir::Dim;
using ir::DType;
using ir::Op;
using ir::Shape;
using ir::Value;

class Generator {
 public:
  explicit Generator(uint64_t seed) : random_(seed) {}

  ir::Graph run() {
    if (flip(12)) m_ = 0;
    pool_.push_back(fresh({m_, 4}));
    if (flip(3)) pool_.push_back(fresh({2, m_, 4}));
    const int steps = 3 + pick(18);
    for (int i = 0; i < steps; ++i) step();
    graph_.add_output(computed(pool_.back()), "last");
    for (int i = 0; i < pick(3); ++i) graph_.add_output(computed(any()));
    return std::move(graph_);
  }

 private:
  int pick(int n) { return static_cast<int>(random_() % n); }
  bool flip(int n) { return pick(n) == 0; }
  Value any() {
    // Recent values more often, so that graphs are chains.
    return flip(2) ? pool_.back() : pool_[pick(static_cast<int>(pool_.size()))];
  }
  Value computed(Value value) {
    return graph_[value].op == Op::Input ? *graph_.add(Op::Neg, {value}) : value;
  }
  const Shape& shape(Value value) { return graph_.type(value).shape; }

  Value fresh(Shape shape) {
    static constexpr DType kDTypes[] = {DType::F32, DType::BF16};
    ir::Type type{kDTypes[pick(2)], std::move(shape)};
    if (type.shape.size() == 2 && flip(5)) type.strides = {type.shape[1] + 3, 1};  // padded
    return *graph_.input("x" + std::to_string(graph_.size()), type);
  }

  void keep(Result<Value> value) {
    if (value && shape(*value).size() <= 4) pool_.push_back(*value);
  }

  void step() {
    const Value x = any();
    switch (pick(12)) {
      case 0:
      case 1:
        return product(x);
      case 2:
      case 3:
        return unary(x);
      case 4:
      case 5:
      case 6:
        return binary(x);
      case 7:
        return gate(x);
      case 8:
        return cast(x);
      case 9:
        return reshape(x);
      case 10:
        return reduce(x);
      default:
        return rearrange(x);
    }
  }

  void cast(Value x) {
    keep(graph_.add(Op::Cast, {x}, ir::CastAttrs{flip(2) ? DType::F32 : DType::BF16}));
  }

  void product(Value x) {
    if (shape(x).size() < 2) return;
    const Dim k = shape(x).back(), n = flip(6) ? 1 : 2 * (1 + pick(3));
    const bool transposed = flip(2);
    Value w = fresh(transposed ? Shape{n, k} : Shape{k, n});
    if (transposed) w = *graph_.add(Op::Transpose, {w});
    keep(graph_.add(Op::MatMul, {x, w}));
    if (flip(3)) pair(pool_.back(), *graph_.add(Op::MatMul, {x, fresh({k, n})}));
  }

  // Two products of one A, and mostly an op that reads both, soon or late.
  void pair(Value a, Value b) {
    pool_.push_back(b);
    if (flip(2)) unary(b);
    if (flip(3)) binary(pool_.back());
    if (flip(3)) reduce(pool_.back());
    keep(graph_.add(flip(2) ? Op::ReGlu : Op::Mul, {a, pool_.back()}));
  }

  void unary(Value x) {
    static constexpr Op kOps[] = {Op::Tanh, Op::Relu, Op::Sigmoid, Op::Neg, Op::Abs};
    keep(graph_.add(kOps[pick(5)], {x}));
  }

  // An operand that broadcasts to the shape; if it does not, the op is left out.
  Value partner(Value x) {
    Shape s = shape(x);
    switch (pick(6)) {
      case 0:
        return graph_.literal(0.5 + pick(3), graph_.type(x).dtype);
      case 1:
        return s.empty() ? fresh({}) : fresh({s.back()});
      case 2:
        if (s.empty()) return fresh({1});
        s.back() = 1;
        return fresh(s);
      case 3:
        return fresh(s);
      case 4:
        return *graph_.add(Op::Tanh, {s.empty() ? fresh({}) : fresh({s.back()})});
      default:
        return any();
    }
  }

  void binary(Value x) {
    static constexpr Op kOps[] = {Op::Add, Op::Sub, Op::Mul, Op::Max, Op::Min};
    const Value y = partner(x);
    keep(flip(2) ? graph_.add(kOps[pick(5)], {x, y}) : graph_.add(kOps[pick(5)], {y, x}));
  }

  Value slice(Value x, Dim begin, Dim end, int64_t step) {
    ir::SliceAttrs attrs;
    for (const Dim& dim : shape(x)) attrs.ranges.push_back({0, dim, 1});
    attrs.ranges.back() = {begin, end, step};
    return *graph_.add(Op::Slice, {x}, attrs);
  }

  void gate(Value x) {
    if (shape(x).empty()) return;
    const auto half = divide(shape(x).back(), Dim(2));
    if (!half || !half->is_static() || half->is(0)) return;
    const bool interleaved = flip(2);
    const Dim whole = shape(x).back();
    const Value a = interleaved ? slice(x, 0, whole, 2) : slice(x, 0, *half, 1);
    const Value b = interleaved ? slice(x, 1, whole, 2) : slice(x, *half, whole, 1);
    keep(graph_.add(flip(2) ? Op::ReGlu : Op::Mul, {a, b}));
    if (flip(6)) pool_.push_back(a);
  }

  void reshape(Value x) {
    const Dim count = ir::element_count(shape(x));
    Shape target = {2, m_, 2};
    if (flip(2)) target = {m_ * Dim(2), 2};
    if (flip(3)) target = {m_, 4};
    const auto last = divide(count * Dim(2), ir::element_count(target));
    if (!last || !last->is_static()) return;
    target.back() = target.back().is(2) ? *last : target.back();
    if (ir::element_count(target) == count)
      keep(graph_.add(Op::Reshape, {x}, ir::ShapeAttrs{target}));
  }

  void reduce(Value x) {
    static constexpr Op kOps[] = {Op::Sum, Op::Mean, Op::ReduceMax, Op::AMax};
    const int rank = static_cast<int>(shape(x).size());
    if (rank == 0) return;
    std::vector<int64_t> axes;
    if (!flip(4)) axes.push_back(pick(rank));
    keep(graph_.add(kOps[pick(4)], {x}, over_axes(axes, flip(2))));
  }

  void rearrange(Value x) {
    const size_t rank = shape(x).size();
    if (rank < 2) return;
    if (flip(3)) return keep(graph_.add(Op::Concat, {x, x}));
    const auto moved = graph_.add(Op::Transpose, {x});
    if (rank == 2 && flip(2)) return keep(graph_.add(Op::Transpose, {*moved}));
    if (shape(x)[rank - 1] == shape(x)[rank - 2]) return keep(graph_.add(Op::Add, {x, *moved}));
    keep(moved);
  }

  std::mt19937_64 random_;
  ir::Graph graph_;
  Dim m_ = Dim::symbol("M");
  std::vector<Value> pool_;
};

constexpr const char* kKinds[] = {"gemm", "gated", "pointwise", "kernel", "single"};

struct Case {
  ir::Bindings bindings;                              // as the interpreter wants them
  std::map<std::string, std::vector<double>> memory;  // element by element, padding included
};

Case random_inputs(const ir::Graph& graph, const ir::SymbolValues& symbols, uint64_t seed) {
  std::mt19937_64 random(seed);
  Case result;
  for (const Value input : graph.inputs()) {
    const ir::Type& type = graph.type(input);
    const std::vector<int64_t> shape = *ir::evaluate(type.shape, symbols);
    std::vector<int64_t> strides = ir::contiguous_strides(shape);
    if (!type.strides.empty()) strides = *ir::evaluate(type.strides, symbols);
    int64_t size = 1;
    for (size_t i = 0; i < shape.size(); ++i)
      size += std::max<int64_t>(shape[i] - 1, 0) * strides[i];
    ir::Tensor storage = *ir::Tensor::make(type.dtype, {size});
    for (int64_t i = 0; i < size; ++i)
      storage.set_number(i, static_cast<int>(random() % 17) / 8.0 - 1);
    std::vector<double>& values = result.memory[graph[input].name];
    for (int64_t i = 0; i < size; ++i) values.push_back(storage.number_at(i));
    if (std::count(shape.begin(), shape.end(), 0) != 0) values.clear();
    ir::Tensor dense = *ir::Tensor::make(type.dtype, shape);
    int64_t next = 0;
    std::vector<int64_t> where(shape.size(), 0);
    for (int64_t i = 0; i < dense.size(); ++i, ++next) {
      int64_t offset = 0, rest = i;
      for (size_t axis = shape.size(); axis-- > 0; rest /= shape[axis])
        offset += rest % shape[axis] * strides[axis];
      dense.set_number(i, values[offset]);
    }
    result.bindings.emplace(graph[input].name, dense);
  }
  return result;
}

bool agree(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  return a == b || std::fabs(a - b) <= 1e-9 * (1 + std::fabs(a));
}

void check(const ir::Graph& graph, const FuseOptions& options, uint64_t seed) {
  const ir::SymbolValues symbols = {{"M", static_cast<int64_t>(seed % 4)}};
  const Partition result = partition(graph, options);
  const Status status = verify(result);
  ASSERT_TRUE(status) << to_string(status.error());
  const Case inputs = random_inputs(graph, symbols, seed);
  const auto expected = ir::interpret(graph, inputs.bindings);
  ASSERT_TRUE(expected) << to_string(expected.error());
  std::vector<std::vector<double>> actual;
  try {
    actual = run_partition(result, symbols, inputs.memory);
  } catch (const std::out_of_range& error) {
    FAIL() << "a region reads outside of a tensor, or one that is not there: " << error.what();
  }
  for (size_t i = 0; i < actual.size(); ++i) {
    const ir::Tensor wanted = *(*expected)[i].contiguous();
    ASSERT_EQ(wanted.size(), static_cast<int64_t>(actual[i].size()));
    for (int64_t k = 0; k < wanted.size(); ++k)
      ASSERT_TRUE(agree(actual[i][k], wanted.number_at(k)))
          << "output " << i << ", element " << k << ": " << actual[i][k] << ", not "
          << wanted.number_at(k);
  }
}

TEST(Random, PartitionsAreWellFormedAndComputeTheGraph) {
  const std::optional<uint64_t> given = setting("ATTACCA_SEED");
  const uint64_t first = given.value_or(1);
  const uint64_t count = setting("ATTACCA_RUNS", given ? 1 : 3000);
  std::map<std::string, size_t> seen;
  for (uint64_t seed = first; seed < first + count; ++seed) {
    const ir::Graph graph = Generator(seed).run();
    check(graph, {}, seed);
    check(graph, {.fuse = false}, seed);
    check(graph, {.transposes = true}, seed);
    const Partition result = partition(graph);
    for (const Region& region : partition(graph, {.transposes = true}).regions)
      for (const epilogue::Output& output : region.epilogue.outputs)
        seen["behind a transpose"] +=
            output.kind == epilogue::OutputKind::Store &&
            output.access.strides != dense_strides(region.epilogue.domain);
    for (const Region& region : result.regions) {
      ++seen[std::string(kKinds[static_cast<size_t>(region.kind)]) +
             (region.gemms.size() == 2 ? " of two" : "")];
      for (const epilogue::Output& output : region.epilogue.outputs)
        seen["reduction"] += output.kind != epilogue::OutputKind::Store;
      seen["several outputs"] += region.outputs.size() > 1;
    }
    if (HasFatalFailure()) {
      FAIL() << "ATTACCA_SEED=" << seed << "\n" << ir::print_graph(graph) << explain_text(result);
    }
  }
  if (count < 1000) return;
  // The random graphs contain every kind of region.
  for (const char* kind : {"gemm", "gated", "gated of two", "pointwise", "single", "reduction",
                           "several outputs", "behind a transpose"})
    EXPECT_GT(seen[kind], count / 50) << kind;
}

}  // namespace
}  // namespace attacca::fuse::testing
