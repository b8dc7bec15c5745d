// Groups of nodes of random graphs: together they must leave a graph without cycles, and each must
// hold only nodes that were taken.
#include "ort/partition.hpp"

#include <algorithm>
#include <functional>
#include <random>
#include <set>

#include "gtest/gtest.h"

namespace attacca::ort {
namespace {

// Nodes read values of nodes before them, inputs and constants.
class RandomGraph {
 public:
  explicit RandomGraph(uint32_t seed) : random_(seed) {
    for (int i = 0; i < 3; ++i) graph_.values.push_back(value());
    graph_.values.push_back(value());
    graph_.values.back().constant = reinterpret_cast<const OrtValue*>(&graph_);  // is not read
    const size_t nodes = 1 + below(24);
    for (size_t node = 0; node < nodes; ++node) add_node();
  }
  const GraphView& graph() const { return graph_; }
  std::vector<bool> taken() {
    std::vector<bool> taken;
    for (size_t node = 0; node < graph_.nodes.size(); ++node) taken.push_back(below(4) != 0);
    return taken;
  }

 private:
  size_t below(size_t most) { return random_() % most; }

  GraphValue value() {
    GraphValue made;
    made.dtype =
        below(4) == 0 ? ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64 : ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT;
    return made;
  }

  void add_node() {
    static const char* const kOps[] = {"MatMul", "Gemm", "Add", "Relu", "Softmax", "Reshape"};
    const size_t index = graph_.nodes.size();
    GraphNode node;
    node.op = kOps[below(std::size(kOps))];
    for (size_t i = 0; i <= below(3); ++i) {
      // Mostly near values, so that there are long paths.
      const size_t back = 1 + below(below(3) == 0 ? graph_.values.size() : 4);
      const size_t read = graph_.values.size() - std::min(back, graph_.values.size());
      node.inputs.emplace_back(read);
      graph_.values[read].consumers.push_back(index);
    }
    for (size_t i = 0; i <= below(2); ++i) {
      node.outputs.emplace_back(graph_.values.size());
      graph_.values.push_back(value());
      graph_.values.back().producer = index;
    }
    graph_.nodes.push_back(std::move(node));
  }

  std::mt19937 random_;
  GraphView graph_;
};

// By a depth-first walk over the groups and the nodes of no group.
bool has_cycle(const GraphView& graph, const std::vector<Group>& groups) {
  std::vector<size_t> vertex(graph.nodes.size());
  for (size_t node = 0; node < vertex.size(); ++node) vertex[node] = groups.size() + node;
  for (size_t group = 0; group < groups.size(); ++group)
    for (const size_t node : groups[group]) vertex[node] = group;
  std::vector<std::set<size_t>> after(groups.size() + graph.nodes.size());
  for (const GraphValue& value : graph.values)
    for (const size_t consumer : value.consumers)
      if (value.producer && vertex[*value.producer] != vertex[consumer])
        after[vertex[*value.producer]].insert(vertex[consumer]);
  std::vector<int> state(after.size(), 0);  // 1: on the path, 2: done
  const std::function<bool(size_t)> visit = [&](size_t at) {
    if (state[at] != 0) return state[at] == 1;
    state[at] = 1;
    const bool found = std::any_of(after[at].begin(), after[at].end(), visit);
    state[at] = 2;
    return found;
  };
  for (size_t each = 0; each < after.size(); ++each)
    if (visit(each)) return true;
  return false;
}

// Nodes rise within a group, and are in one group at most.
bool are_apart(const std::vector<Group>& groups) {
  std::set<size_t> seen;
  for (const Group& group : groups) {
    if (!std::is_sorted(group.begin(), group.end())) return false;
    for (const size_t node : group)
      if (!seen.insert(node).second) return false;
  }
  return true;
}

TEST(Partition, GroupsOfRandomGraphsLeaveNoCycle) {
  size_t joined = 0;
  for (uint32_t seed = 0; seed < 5000; ++seed) {
    RandomGraph made(seed);
    const std::vector<bool> taken = made.taken();
    const std::vector<Group> groups = groups_of(made.graph(), taken);
    ASSERT_TRUE(are_apart(groups)) << seed;
    ASSERT_FALSE(has_cycle(made.graph(), groups)) << seed;
    size_t nodes = 0;
    for (const Group& group : groups) {
      for (const size_t node : group) ASSERT_TRUE(taken[node]) << seed;
      nodes += group.size();
      joined += group.size() > 1;
    }
    ASSERT_EQ(nodes, static_cast<size_t>(std::count(taken.begin(), taken.end(), true))) << seed;
  }
  EXPECT_GT(joined, 5000u);
}

TEST(Partition, ProductsOfRandomGraphsLeaveNoCycle) {
  size_t with_tail = 0;
  for (uint32_t seed = 0; seed < 5000; ++seed) {
    RandomGraph made(seed);
    std::vector<Group> all;
    for (const Group& group : groups_of(made.graph(), made.taken()))
      for (Group& part : products_of(made.graph(), group)) {
        ASSERT_TRUE(std::includes(group.begin(), group.end(), part.begin(), part.end())) << seed;
        ASSERT_TRUE(has_product(made.graph(), part)) << seed;
        with_tail += part.size() > 1;
        all.push_back(std::move(part));
      }
    ASSERT_TRUE(are_apart(all)) << seed;
    ASSERT_FALSE(has_cycle(made.graph(), all)) << seed;
  }
  EXPECT_GT(with_tail, 1000u);
}

GraphView chain(const std::vector<const char*>& ops) {
  GraphView graph;
  graph.values.emplace_back();
  for (const char* const op : ops) {
    GraphNode node;
    node.op = op;
    node.inputs = {graph.values.size() - 1};
    node.outputs = {graph.values.size()};
    graph.values.back().consumers = {graph.nodes.size()};
    graph.values.emplace_back();
    graph.values.back().producer = graph.nodes.size();
    graph.nodes.push_back(std::move(node));
  }
  return graph;
}

TEST(Partition, AnOpThatIsNotTakenSplitsAChain) {
  const GraphView graph = chain({"MatMul", "Relu", "NonZero", "MatMul", "Relu"});
  const std::vector<Group> groups = groups_of(graph, {true, true, false, true, true});
  EXPECT_EQ(groups, (std::vector<Group>{{0, 1}, {3, 4}}));
}

TEST(Partition, ATailEndsBeforeWhatIsNotElementwise) {
  const GraphView graph = chain({"MatMul", "Relu", "Reshape", "Tanh", "Softmax", "Gemm", "Add"});
  const Group all = {0, 1, 2, 3, 4, 5, 6};
  EXPECT_EQ(products_of(graph, all), (std::vector<Group>{{0, 1, 2, 3}, {5, 6}}));
}

}  // namespace
}  // namespace attacca::ort
