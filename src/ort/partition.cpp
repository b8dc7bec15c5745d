#include "ort/partition.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <string_view>

namespace attacca::ort {
namespace {

// Sorted.
// clang-format off
constexpr std::string_view kProducts[] = {
    "Attention", "DynamicQuantizeMatMul", "Einsum", "FusedGemm", "FusedMatMul", "Gemm",
    "GroupQueryAttention", "MatMul", "MatMulInteger", "MatMulIntegerToFloat", "MatMulNBits", "MoE",
    "MultiHeadAttention", "QAttention", "QGemm", "QLinearMatMul", "QMoE"};
// clang-format on

// What may join the product before it: ops of one element each. Sorted.
// clang-format off
constexpr std::string_view kTails[] = {
    "Abs", "Add", "And", "BiasGelu", "Cast", "CastLike", "Celu", "Clip", "DequantizeLinear",
    "Div", "Elu", "Equal", "Erf", "Exp", "FastGelu", "Gelu", "Greater", "GreaterOrEqual",
    "HardSigmoid", "HardSwish", "LeakyRelu", "Less", "LessOrEqual", "Log", "Max", "Min", "Mish",
    "Mul", "Neg", "Not", "Or", "PRelu", "Pow", "QLinearAdd", "QLinearLeakyRelu", "QLinearMul",
    "QLinearSigmoid", "QuantizeLinear", "QuickGelu", "Reciprocal", "Relu", "Round", "Selu",
    "Shrink", "Sigmoid", "Sign", "Softplus", "Softsign", "Sqrt", "Sub", "Sum", "Swish", "Tanh",
    "ThresholdedRelu", "Where"};
// clang-format on

// What changes the shape alone. Sorted.
constexpr std::string_view kViews[] = {"Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze"};

// What the importer reads as products of slices and of unrolled steps, and ONNX Runtime has kernels
// for. Sorted.
constexpr std::string_view kLeft[] = {"AveragePool", "Conv", "ConvInteger", "ConvTranspose",
                                      "FusedConv",   "GRU",  "LSTM",        "MaxPool",
                                      "QLinearConv", "RNN"};

static_assert(std::ranges::is_sorted(kLeft) && std::ranges::is_sorted(kProducts) &&
              std::ranges::is_sorted(kTails) && std::ranges::is_sorted(kViews));

template <size_t N>
bool contains(const std::string_view (&sorted)[N], std::string_view name) {
  return std::binary_search(std::begin(sorted), std::end(sorted), name);
}

// Calls f(before) with each node whose result the node reads.
template <class F>
void for_each_before(const GraphView& graph, size_t node, F f) {
  for (const auto& input : graph.nodes[node].inputs)
    if (input && graph.values[*input].producer) f(*graph.values[*input].producer);
  for (const size_t input : graph.nodes[node].captured)
    if (graph.values[input].producer) f(*graph.values[input].producer);
}

template <class F>
void for_each_after(const GraphView& graph, size_t node, F f) {
  for (const auto& output : graph.nodes[node].outputs)
    if (output)
      for (const size_t after : graph.values[*output].consumers) f(after);
}

// Whether it computes with integers alone, such as a shape.
bool is_index_arithmetic(const GraphView& graph, const GraphNode& node) {
  return std::all_of(node.outputs.begin(), node.outputs.end(), [&](const auto& output) {
    return output && (graph.values[*output].dtype == ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64 ||
                      graph.values[*output].dtype == ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32);
  });
}

// Levels never fall along an edge and rise between a node that is taken and one that is not: even
// for the former, odd for the latter. So nodes of one level that are taken have no other between
// them. Constants' arithmetic and shapes move up to the nodes that read them.
std::vector<int64_t> levels_of(const GraphView& graph, const std::vector<bool>& taken) {
  const size_t count = graph.nodes.size();
  std::vector<int64_t> levels(count, 0);
  std::vector<bool> movable(count, false);
  for (size_t node = 0; node < count; ++node) {
    const int64_t parity = taken[node] ? 0 : 1;
    levels[node] = parity;
    bool constant = true;
    for (const auto& input : graph.nodes[node].inputs)
      if (input && graph.values[*input].constant == nullptr && !graph.values[*input].producer)
        constant = false;
    for_each_before(graph, node, [&](size_t before) {
      const int64_t level = levels[before];
      levels[node] = std::max(levels[node], level % 2 == parity ? level : level + 1);
      constant = constant && movable[before];
    });
    movable[node] = taken[node] && (constant || is_index_arithmetic(graph, graph.nodes[node]));
  }
  for (size_t node = count; node-- > 0;) {
    if (!movable[node]) continue;
    int64_t lowest = std::numeric_limits<int64_t>::max();
    for_each_after(graph, node, [&](size_t after) {
      lowest = std::min(lowest, levels[after] - levels[after] % 2);
    });
    if (lowest != std::numeric_limits<int64_t>::max())
      levels[node] = std::max(levels[node], lowest);
  }
  return levels;
}

class Sets {
 public:
  explicit Sets(size_t count) : parents_(count) {
    std::iota(parents_.begin(), parents_.end(), size_t{0});
  }
  size_t find(size_t each) {
    while (parents_[each] != each) each = parents_[each] = parents_[parents_[each]];
    return each;
  }
  void join(size_t a, size_t b) { parents_[find(a)] = find(b); }

 private:
  std::vector<size_t> parents_;
};

bool is_tail(const GraphView& graph, const GraphNode& node) {
  if (contains(kTails, node.op)) return true;
  if (!contains(kViews, node.op)) return false;
  return std::all_of(node.inputs.begin() + 1, node.inputs.end(), [&](const auto& input) {
    return !input || graph.values[*input].constant != nullptr;
  });
}

// The product and what follows it within `inside`, without nodes that depend on it by a way around.
Group tail_of(const GraphView& graph, size_t product, const std::set<size_t>& inside,
              const std::vector<int64_t>& owner) {
  Group group = {product};
  std::set<size_t> members = {product}, outside;  // of those that depend on the product
  for (auto at = inside.upper_bound(product); at != inside.end(); ++at) {
    bool follows = false, around = false;
    for_each_before(graph, *at, [&](size_t before) {
      follows = follows || members.count(before);
      around = around || outside.count(before);
    });
    const GraphNode& node = graph.nodes[*at];
    if (follows && !around && owner[*at] < 0 && is_tail(graph, node)) {
      members.insert(*at);
      group.push_back(*at);
    } else if (follows || around) {
      outside.insert(*at);
    }
  }
  return group;
}

// The dequantisations, transposes and casts of constants that the group alone reads.
Group with_constants(const GraphView& graph, const Group& group, const std::set<size_t>& inside,
                     const std::vector<int64_t>& owner) {
  std::set<size_t> members(group.begin(), group.end());
  std::vector<size_t> open = group;
  while (!open.empty()) {
    const size_t node = open.back();
    open.pop_back();
    for_each_before(graph, node, [&](size_t before) {
      bool constant = inside.count(before) && !members.count(before) && owner[before] < 0;
      bool shared = false;
      for (const auto& input : graph.nodes[before].inputs)
        constant = constant && (!input || graph.values[*input].constant != nullptr);
      for_each_after(graph, before, [&](size_t after) { shared |= !members.count(after); });
      if (!constant || shared) return;
      members.insert(before);
      open.push_back(before);
    });
  }
  return {members.begin(), members.end()};
}

}  // namespace

std::vector<Group> groups_of(const GraphView& graph, const std::vector<bool>& taken) {
  const std::vector<int64_t> levels = levels_of(graph, taken);
  Sets sets(graph.nodes.size());
  for (const GraphValue& value : graph.values) {
    if (value.constant != nullptr) continue;
    std::map<int64_t, size_t> first;  // by level
    const auto meet = [&](size_t node) {
      if (!taken[node]) return;
      const auto [slot, fresh] = first.emplace(levels[node], node);
      if (!fresh) sets.join(node, slot->second);
    };
    if (value.producer) meet(*value.producer);
    for (const size_t consumer : value.consumers) meet(consumer);
  }
  std::map<size_t, Group> groups;
  for (size_t node = 0; node < graph.nodes.size(); ++node)
    if (taken[node]) groups[sets.find(node)].push_back(node);
  std::vector<Group> all;
  for (auto& [root, group] : groups) all.push_back(std::move(group));
  return all;
}

std::vector<Group> products_of(const GraphView& graph, const Group& group) {
  const std::set<size_t> inside(group.begin(), group.end());
  std::vector<int64_t> owner(graph.nodes.size(), -1);
  std::vector<Group> all;
  for (const size_t node : group) {
    if (!contains(kProducts, graph.nodes[node].op) || owner[node] >= 0) continue;
    Group made = with_constants(graph, tail_of(graph, node, inside, owner), inside, owner);
    std::vector<int64_t> next = owner;
    for (const size_t each : made) next[each] = static_cast<int64_t>(all.size());
    if (!acyclic(graph, next)) continue;
    owner = std::move(next);
    all.push_back(std::move(made));
  }
  return all;
}

bool acyclic(const GraphView& graph, const std::vector<int64_t>& owner) {
  const size_t count = graph.nodes.size();
  const auto vertex = [&](size_t node) {
    return owner[node] < 0 ? node : count + static_cast<size_t>(owner[node]);
  };
  std::map<size_t, std::set<size_t>> after;
  std::map<size_t, size_t> open;  // by vertex: how many before it are not done
  for (size_t node = 0; node < count; ++node) open.emplace(vertex(node), 0);
  for (size_t node = 0; node < count; ++node)
    for_each_before(graph, node, [&](size_t before) {
      if (vertex(before) != vertex(node) && after[vertex(before)].insert(vertex(node)).second)
        ++open[vertex(node)];
    });
  std::vector<size_t> ready;
  for (const auto& [each, before] : open)
    if (before == 0) ready.push_back(each);
  size_t done = 0;
  for (; !ready.empty(); ++done) {
    const size_t each = ready.back();
    ready.pop_back();
    for (const size_t next : after[each])
      if (--open[next] == 0) ready.push_back(next);
  }
  return done == open.size();
}

bool is_left(const GraphNode& node) {
  return contains(kLeft, node.op);
}

bool has_product(const GraphView& graph, const Group& group) {
  return std::any_of(group.begin(), group.end(),
                     [&](size_t node) { return contains(kProducts, graph.nodes[node].op); });
}

}  // namespace attacca::ort
