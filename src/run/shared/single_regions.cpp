#include "run/shared/single_regions.hpp"

#include "fmt/format.h"

#include "fuse/views.hpp"
#include "problem/region_graph.hpp"
#include "support/check.hpp"

namespace attacca::run {
namespace {

using epilogue::Access;
using epilogue::Role;
using fuse::dense_strides;
using ir::Dim;
using ir::Op;

// Graph inputs may be strided; every other value is dense.
std::vector<Dim> strides_of(const ir::Type& type) {
  return type.strides.empty() ? dense_strides(type.shape) : type.strides;
}

// One copy over a domain, which gets leading axes until it has rows and columns.
fuse::Region copy_region(const ir::Graph& graph, ir::Value value, ir::Value source,
                         ir::Shape domain, Access from, Access to) {
  while (domain.size() < 2) {
    domain.insert(domain.begin(), Dim(1));
    from.strides.insert(from.strides.begin(), Dim(0));
    to.strides.insert(to.strides.begin(), Dim(0));
  }
  fuse::Region region;
  region.kind = fuse::RegionKind::Pointwise;
  region.nodes = {value};
  region.inputs = {source};
  region.outputs = {value};
  region.epilogue.domain = std::move(domain);
  epilogue::Input input;
  input.role = fuse::role_of(from.strides);
  input.dtype = graph.type(source).dtype;
  input.source = source;
  input.access = std::move(from);
  region.epilogue.inputs.push_back(std::move(input));
  epilogue::Output output;
  output.dtype = graph.type(value).dtype;
  output.access = std::move(to);
  output.result = value;
  region.epilogue.outputs.push_back(std::move(output));
  return region;
}

}  // namespace

Access copied_access(const ir::Graph& graph, ir::Value view, std::vector<Dim> strides) {
  if (graph[view].op == Op::Reshape) return {0, dense_strides(graph.type(view).shape)};
  return fuse::view_of(graph, view, {0, std::move(strides)});
}

bool is_copy(Op op) {
  return fuse::is_view_op(op) || op == Op::Concat;
}

std::vector<fuse::Region> copy_regions(const ir::Graph& graph, ir::Value value) {
  const ir::Node& node = graph[value];
  const std::vector<Dim> to = dense_strides(node.type.shape);
  std::vector<fuse::Region> regions;
  if (node.op != Op::Concat) {
    const ir::Value source = node.operands[0];
    // A reshape of a strided input keeps the input's coordinates; the result is dense in them.
    const bool strided = node.op == Op::Reshape && !graph.type(source).strides.empty();
    if (strided)
      regions.push_back(copy_region(graph, value, source, graph.type(source).shape,
                                    {0, strides_of(graph.type(source))},
                                    {0, dense_strides(graph.type(source).shape)}));
    else
      regions.push_back(copy_region(graph, value, source, node.type.shape,
                                    copied_access(graph, value, strides_of(graph.type(source))),
                                    {0, to}));
    return regions;
  }
  Dim offset = 0;
  const auto axis = static_cast<size_t>(node.get<ir::AxisAttrs>().axis);
  for (const ir::Value source : node.operands) {
    const ir::Type& type = graph.type(source);
    regions.push_back(copy_region(graph, value, source, type.shape, {0, strides_of(type)},
                                  {offset * to[axis], to}));
    offset = offset + type.shape[axis];
  }
  return regions;
}

fuse::Region pointwise_region(const ir::Graph& graph, const fuse::Region& single) {
  const ir::Value value = single.nodes[0];
  const ir::Node& node = graph[value];
  fuse::Region region = single;
  region.kind = fuse::RegionKind::Pointwise;
  epilogue::Epilogue& epilogue = region.epilogue;
  epilogue.domain = node.type.shape;
  while (epilogue.domain.size() < 2) epilogue.domain.insert(epilogue.domain.begin(), ir::Dim(1));
  std::vector<epilogue::Node> literals;
  epilogue::Node step;
  step.op = node.op;
  step.params = node.params();
  step.dtype = node.type.dtype;
  step.compute = node.compute();
  step.saturate = node.saturates();
  for (const ir::Value operand : node.operands) {
    const ir::Node& from = graph[operand];
    if (from.literal) {
      epilogue::Node literal;
      literal.op = Op::Constant;
      literal.literal = from.literal->value;
      literal.dtype = from.type.dtype;
      literals.push_back(literal);
      step.operands.push_back(-static_cast<int>(literals.size()));
      continue;
    }
    epilogue::Input input;
    input.dtype = from.type.dtype;
    input.source = operand;
    input.access.strides =
        fuse::broadcast_strides(from.type.shape, strides_of(from.type), epilogue.domain);
    input.role = fuse::role_of(input.access.strides);
    step.operands.push_back(static_cast<int>(epilogue.inputs.size()));
    epilogue.inputs.push_back(input);
  }
  const auto inputs = static_cast<int>(epilogue.inputs.size());
  for (int& operand : step.operands)
    if (operand < 0) operand = inputs - operand - 1;
  epilogue.nodes = literals;
  epilogue.nodes.push_back(step);
  epilogue::Output output;
  output.value = inputs + static_cast<int>(literals.size());
  output.dtype = node.type.dtype;
  output.access.strides =
      fuse::broadcast_strides(node.type.shape, strides_of(node.type), epilogue.domain);
  output.result = value;
  epilogue.outputs = {output};
  return region;
}

Result<fuse::Region> matmul_region(const ir::Graph& graph, const fuse::Region& single) {
  ATTACCA_TRY(ir::Graph alone, problem::region_graph(graph, single));
  fuse::Partition partition = fuse::partition(std::move(alone));
  ATTACCA_CHECK(partition.regions.size() == 1, "a matmul on its own is one region");
  fuse::Region region = std::move(partition.regions[0]);
  const ir::Value node = single.nodes[0];
  if (region.gemms.size() != 1) {
    const auto type_of = [&](size_t operand) {
      return name(graph.type(graph[node].operands[operand]).dtype);
    };
    return fail(
        fmt::format("products of {} with {} have no kernel on this device", type_of(0), type_of(1)),
        graph[node].name, "run with --device cpu");
  }
  const auto original = [&](ir::Value value) {
    for (const ir::Value operand : graph[node].operands)
      if (partition.graph[value].name == problem::region_value_name(graph, operand)) return operand;
    return node;
  };
  fuse::Gemm& gemm = region.gemms[0];
  gemm.node = node;
  gemm.a.source = original(gemm.a.source);
  gemm.b.source = original(gemm.b.source);
  for (epilogue::Output& output : region.epilogue.outputs) output.result = node;
  region.nodes = {node};
  region.inputs = single.inputs;
  region.outputs = {node};
  return region;
}

}  // namespace attacca::run
