#include "fuse/joining/chain.hpp"

#include <algorithm>
#include <cstring>

#include "fuse/gates.hpp"

namespace attacca::fuse {
namespace {

using ir::Op;
using ir::Value;

bool is_plain(const Region& region, const ir::Graph& graph) {
  if (region.kind != RegionKind::Gemm || region.gemms.size() != 1) return false;
  const Gemm& gemm = region.gemms[0];
  return graph[gemm.node].op == Op::MatMul && !gemm.a.rows && !gemm.a.scales && !gemm.b.packed &&
         !gemm.b.codes;
}

// Whether B is a constant matrix that only this product reads.
bool has_own_weights(const Facts& facts, Value matmul) {
  Value b = facts.graph[matmul].operands[1];
  const auto columns = constant_columns(facts.graph, facts.views, b);
  if (facts.graph.type(b).shape.size() != 2 || !columns) return false;
  const Value source = facts.views[b.id].source;
  Value reader = matmul;
  for (; reader != source;
       reader = b, b = facts.graph[b].operands.empty() ? b : facts.graph[b].operands[0])
    if (facts.is_output[b.id] || facts.users[b.id].size() != 1) return false;
  return true;
}

// Whether both are numbers with equal bits.
bool same_number(const ir::Node& one, const ir::Node& other) {
  if (one.literal && other.literal)
    return std::memcmp(&one.literal->value, &other.literal->value, sizeof(double)) == 0;
  if (!one.tensor || !other.tensor || one.tensor->size() != 1) return false;
  return std::memcmp(one.tensor->data(), other.tensor->data(),
                     static_cast<size_t>(ir::size_of(one.type.dtype))) == 0;
}

// Whether two values are computed alike of the same values. Depth bounds the ops that are compared.
bool same(const ir::Graph& graph, Value one, Value other, int depth = 6) {
  if (one == other) return true;
  const ir::Node &a = graph[one], &b = graph[other];
  if (a.op != b.op || !(a.type == b.type) || depth == 0) return false;
  if (a.op == Op::Constant) return same_number(a, b);
  if (a.op == Op::Input || a.op == Op::Kernel || a.operands.size() != b.operands.size() ||
      !(a.attrs == b.attrs))
    return false;
  for (size_t i = 0; i < a.operands.size(); ++i)
    if (!same(graph, a.operands[i], b.operands[i], depth - 1)) return false;
  return true;
}

// The one column of a number that is known in full: an element of f32, which is what ops of f32
// compute with. nullopt: the node is no such number.
std::optional<ConstantColumns> number_of(const ir::Node& node) {
  if (!node.literal || node.type.dtype != ir::DType::F32) return std::nullopt;
  return ConstantColumns{
      .tensor = ir::Tensor::of(ir::DType::F32, {}, {node.literal->value}), .rows = 1, .columns = 1};
}

bool has_equal_columns(const ir::Shape& shape) {
  return shape.empty() || shape.back().is(1);
}

bool is_in(const Chain& chain, Value value) {
  return member_index(chain, value).has_value();
}

// How many numbers may become rows, one element a column, which a kernel has to load: the scales of
// a product of bytes are two.
constexpr int kMostNewRows = 2;

}  // namespace

std::optional<Chain> chain_of(const Facts& facts, const Region& region) {
  const ir::Graph& graph = facts.graph;
  if (!is_plain(region, graph)) return std::nullopt;
  Chain chain{region.gemms[0].node, {}};
  if (!has_own_weights(facts, chain.matmul)) return std::nullopt;
  for (const Value node : region.nodes)
    if (!is_view_op(graph[node].op)) chain.nodes.push_back(node);
  const ir::Shape& wide = graph.type(chain.matmul).shape;
  if (!(graph.type(chain.result()).shape == wide)) return std::nullopt;
  for (const Value node : chain.nodes) {
    const Op op = graph[node].op;
    if (node != chain.matmul && !ir::is_elementwise(op) && op != Op::Cast) return std::nullopt;
    if (facts.is_output[node.id]) return std::nullopt;
    if (node == chain.result()) continue;
    for (const Value user : facts.users[node.id])
      if (!is_in(chain, user)) return std::nullopt;
  }
  return chain;
}

std::optional<size_t> member_index(const Chain& chain, Value operand) {
  const auto found = std::lower_bound(chain.nodes.begin(), chain.nodes.end(), operand);
  if (found == chain.nodes.end() || *found != operand) return std::nullopt;
  return static_cast<size_t>(found - chain.nodes.begin());
}

std::optional<ConstantColumns> columns_of(const Facts& facts, const Chain& chain, Value operand) {
  auto columns = number_of(facts.graph[operand]);
  if (!columns) columns = constant_columns(facts.graph, facts.views, operand);
  const int64_t wanted = facts.graph.type(chain.matmul).shape.back().value();
  if (!columns || columns->rows != 1) return std::nullopt;
  if (columns->columns == 1) {
    columns->columns = wanted;
    columns->column_stride = 0;
  }
  return columns->columns == wanted ? columns : std::nullopt;
}

std::optional<Place> place_of(const Facts& facts, const std::vector<const Chain*>& chains,
                              size_t at, size_t index) {
  const auto operand = [&](const Chain& chain) {
    return facts.graph[chain.nodes[at]].operands[index];
  };
  const Value first = operand(*chains[0]);
  const auto member = member_index(*chains[0], first);
  const auto all = [&](auto holds) {
    return std::all_of(chains.begin(), chains.end(),
                       [&](const Chain* each) { return holds(*each, operand(*each)); });
  };
  if (all([&](const Chain& chain, Value each) { return member_index(chain, each) == member; })) {
    if (member) return Place::Member;
  } else {
    return std::nullopt;
  }
  if (has_equal_columns(facts.graph.type(first).shape) &&
      all([&](const Chain&, Value each) { return same(facts.graph, first, each); }))
    return Place::Shared;
  const ir::DType dtype = facts.graph.type(first).dtype;
  const ir::Node& node = facts.graph[chains[0]->nodes[at]];
  const bool literals = !all([&](const Chain&, Value each) { return !facts.graph[each].literal; });
  if (literals && (node.type.dtype != ir::DType::F32 || !ir::is_elementwise(node.op) ||
                   node.compute().value_or(ir::DType::F32) != ir::DType::F32))
    return std::nullopt;
  const bool constants = all([&](const Chain& chain, Value each) {
    return facts.graph.type(each).dtype == dtype && columns_of(facts, chain, each).has_value();
  });
  return constants ? std::optional(Place::Columns) : std::nullopt;
}

bool are_alike(const Facts& facts, const Chain& one, const Chain& other) {
  const ir::Graph& graph = facts.graph;
  if (one.nodes.size() != other.nodes.size() || !reads_same_a(facts, one.matmul, other.matmul))
    return false;
  const std::vector<const Chain*> both = {&one, &other};
  int new_rows = 0;
  for (size_t at = 0; at < one.nodes.size(); ++at) {
    const ir::Node &a = graph[one.nodes[at]], &b = graph[other.nodes[at]];
    if (a.op != b.op || !(a.attrs == b.attrs) || a.type.dtype != b.type.dtype) return false;
    if (a.op == Op::MatMul) {
      if (graph.type(a.operands[1]).dtype != graph.type(b.operands[1]).dtype) return false;
      continue;
    }
    for (size_t i = 0; i < a.operands.size(); ++i) {
      const auto place = place_of(facts, both, at, i);
      if (!place) return false;
      if (place == Place::Columns && has_equal_columns(graph.type(a.operands[i]).shape)) ++new_rows;
    }
  }
  return new_rows <= kMostNewRows;
}

}  // namespace attacca::fuse
