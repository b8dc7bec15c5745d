#include "region_runner.hpp"

#include <cmath>

#include "support/check.hpp"

namespace attacca::fuse::testing {
namespace {

using epilogue::Access;
using epilogue::Epilogue;
using epilogue::OutputKind;
using epilogue::Role;
using ir::Value;
using Coordinates = std::vector<int64_t>;

class Runner {
 public:
  Runner(const Partition& partition, const ir::SymbolValues& symbols)
      : partition_(partition), graph_(partition.graph), symbols_(symbols) {}

  std::vector<std::vector<double>> run(const std::map<std::string, std::vector<double>>& inputs) {
    for (const Value input : graph_.inputs()) memory_[input] = inputs.at(graph_[input].name);
    for (uint32_t id = 0; id < graph_.size(); ++id) load_constant(Value{id});
    for (const Region& region : partition_.regions)
      region.kind == RegionKind::Single ? run_single(region) : run_fused(region);
    std::vector<std::vector<double>> results;
    for (const ir::Output& output : graph_.outputs()) results.push_back(memory_.at(output.value));
    return results;
  }

 private:
  // A polynomial that may be negative or 0 alike.
  int64_t number(const ir::Dim& dim) const {
    const auto value = dim.evaluate(symbols_);
    ATTACCA_CHECK(value.has_value(), "a dimension without a value");
    return *value;
  }

  Coordinates extents(const ir::Shape& shape) const {
    Coordinates result;
    for (const ir::Dim& dim : shape) result.push_back(number(dim));
    return result;
  }

  int64_t at(const Access& access, const Coordinates& where) const {
    int64_t offset = number(access.offset);
    for (size_t i = 0; i < where.size(); ++i) offset += where[i] * number(access.strides[i]);
    return offset;
  }

  template <class Visit>
  static void for_each_point(const Coordinates& extents, Visit visit) {
    for (const int64_t extent : extents)
      if (extent == 0) return;
    Coordinates where(extents.size(), 0);
    while (true) {
      visit(where);
      size_t axis = extents.size();
      while (axis-- > 0 && ++where[axis] == extents[axis]) where[axis] = 0;
      if (axis == SIZE_MAX) return;
    }
  }

  void load_constant(Value value) {
    const ir::Node& node = graph_[value];
    if (node.literal) memory_[value] = {node.literal->value};
    if (!node.tensor) return;
    const ir::Tensor dense = *node.tensor->contiguous();
    for (int64_t i = 0; i < dense.size(); ++i) memory_[value].push_back(dense.number_at(i));
  }

  // Without the padding of strided inputs.
  std::vector<double> dense(Value value) const {
    const ir::Type& type = graph_.type(value);
    if (type.strides.empty()) return memory_.at(value);
    std::vector<double> result;
    for_each_point(extents(type.shape), [&](const Coordinates& where) {
      result.push_back(memory_.at(value).at(at({0, type.strides}, where)));
    });
    return result;
  }

  void run_single(const Region& region) {
    const ir::Node& node = graph_[region.nodes[0]];
    ir::Graph one;
    ir::Bindings bindings;
    std::vector<Value> operands;
    for (const Value operand : node.operands) {
      const Coordinates shape = extents(graph_.type(operand).shape);
      const std::string name = "o" + std::to_string(operands.size());
      ir::Type type{ir::DType::F64, ir::Shape(shape.begin(), shape.end())};
      operands.push_back(*one.input(name, type));
      bindings.emplace(name, ir::Tensor::of(ir::DType::F64, shape, dense(operand)));
    }
    ir::Attrs attrs = node.attrs;
    if (auto* to = std::get_if<ir::ShapeAttrs>(&attrs))
      for (ir::Dim& dim : to->shape) dim = number(dim);
    if (auto* cut = std::get_if<ir::SliceAttrs>(&attrs))
      for (ir::SliceRange& range : cut->ranges) {
        range.begin = number(range.begin);
        range.end = number(range.end);
      }
    one.add_output(*one.add(node.op, operands, attrs), "out");
    const ir::Tensor out = *(*ir::interpret(one, bindings))[0].contiguous();
    std::vector<double>& to = memory_[region.nodes[0]];
    for (int64_t i = 0; i < out.size(); ++i) to.push_back(out.number_at(i));
  }

  // Row-major over [batch..., M, N].
  std::vector<double> multiply(const Gemm& gemm) const {
    ir::Shape shape = gemm.batch;
    shape.push_back(gemm.m);
    shape.push_back(gemm.n);
    const std::vector<double>&a = memory_.at(gemm.a.source), &b = memory_.at(gemm.b.source);
    std::vector<double> result;
    for_each_point(extents(shape), [&](const Coordinates& where) {
      Coordinates in_a = where, in_b = where;
      double sum = 0;
      for (int64_t k = 0; k < number(gemm.k); ++k) {
        in_a.back() = k;
        in_b[where.size() - 2] = k;
        sum += a.at(at(gemm.a.access, in_a)) * b.at(at(gemm.b.access, in_b));
      }
      result.push_back(sum);
    });
    return result;
  }

  double accumulator(const Region& region, const epilogue::Input& input,
                     const Coordinates& where) const {
    const Gemm& gemm = region.gemms[input.gemm];
    int64_t row = 0;
    const Coordinates domain = extents(region.epilogue.domain);
    for (size_t i = 0; i + 1 < where.size(); ++i) row = row * domain[i] + where[i];
    const int64_t column = where.back() * input.column_step + number(input.column_offset);
    return products_[input.gemm].at(row * number(gemm.n) + column);
  }

  std::vector<double> values_at(const Region& region, const Coordinates& where) const {
    std::vector<double> values;
    for (const epilogue::Input& input : region.epilogue.inputs)
      values.push_back(input.role == Role::Accumulator
                           ? accumulator(region, input, where)
                           : memory_.at(input.source).at(at(input.access, where)));
    for (const epilogue::Node& node : region.epilogue.nodes) {
      std::vector<double> operands;
      for (const int operand : node.operands) operands.push_back(values.at(operand));
      if (node.op == ir::Op::Constant)
        values.push_back(node.literal);
      else if (node.op == ir::Op::Cast)
        values.push_back(operands[0]);
      else
        values.push_back(ir::evaluate(node.op, std::span<const double>(operands), node.params));
    }
    return values;
  }

  static double start_of(const epilogue::Output& output) {
    if (output.reduction == ir::Op::ReduceMax) return -INFINITY;
    return output.reduction == ir::Op::ReduceMin ? INFINITY : 0;
  }

  // NaN wins.
  static double larger(double a, double b) { return a > b || std::isnan(a) ? a : b; }

  static void reduce(const epilogue::Output& output, double& into, double value) {
    switch (output.reduction) {
      case ir::Op::Sum:
      case ir::Op::Mean:  // divided when it is whole
        into += value;
        break;
      case ir::Op::ReduceMax:
        into = larger(into, value);
        break;
      case ir::Op::ReduceMin:
        into = -larger(-into, -value);
        break;
      case ir::Op::AMax:
        into = larger(into, std::fabs(value));
        break;
      default:
        ATTACCA_CHECK(false, "no reduction");
    }
  }

  void run_fused(const Region& region) {
    products_.clear();
    for (const Gemm& gemm : region.gemms) products_.push_back(multiply(gemm));
    for (const epilogue::Output& output : region.epilogue.outputs) {
      int64_t size = 1;
      for (const int64_t extent : extents(graph_.type(output.result).shape)) size *= extent;
      const bool store = output.kind == OutputKind::Store;
      memory_[output.result].assign(size, store ? NAN : start_of(output));
    }
    for_each_point(extents(region.epilogue.domain), [&](const Coordinates& where) {
      const std::vector<double> values = values_at(region, where);
      for (const epilogue::Output& output : region.epilogue.outputs) {
        double& element = memory_.at(output.result).at(at(output.access, where));
        if (output.kind == OutputKind::Store)
          element = values.at(output.value);
        else
          reduce(output, element, values.at(output.value));
      }
    });
    double points = 1;
    for (const int64_t extent : extents(region.epilogue.domain))
      points *= static_cast<double>(extent);
    for (const epilogue::Output& output : region.epilogue.outputs) {
      if (output.kind == OutputKind::Store || output.reduction != ir::Op::Mean) continue;
      std::vector<double>& sums = memory_.at(output.result);
      for (double& sum : sums) sum /= points / static_cast<double>(sums.size());
    }
  }

  const Partition& partition_;
  const ir::Graph& graph_;
  ir::SymbolValues symbols_;
  std::map<Value, std::vector<double>> memory_;
  std::vector<std::vector<double>> products_;
};

}  // namespace

std::vector<std::vector<double>> run_partition(
    const Partition& partition, const ir::SymbolValues& symbols,
    const std::map<std::string, std::vector<double>>& inputs) {
  return Runner(partition, symbols).run(inputs);
}

}  // namespace attacca::fuse::testing
