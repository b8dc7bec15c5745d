#include "ort/choose.hpp"

#include <set>
#include <span>
#include <unordered_map>

namespace attacca::ort {
namespace {

constexpr size_t kMostNamed = 8;

class Chooser {
 public:
  Chooser(const GraphView& graph, const Options& options, const Judge& judge)
      : graph_(graph), options_(options), judge_(judge), taken_(graph.nodes.size()) {}

  Choice run() {
    for (size_t node = 0; node < graph_.nodes.size(); ++node) taken_[node] = is_known(node);
    for (const Group& group : importable_groups())
      if (!claim(group)) claim_parts(group);
    explain();
    return std::move(choice_);
  }

 private:
  void leave(size_t node, const std::string& reason) {
    taken_[node] = false;
    reasons_[node] = reason;
  }

  // Whether the importer has the op and its dtypes. What it says of the node itself may be due to
  // the nodes around it, which this model lacks.
  bool is_known(size_t node) {
    const GraphNode& known = graph_.nodes[node];
    if (!known.provider.empty()) return false;
    if (known.nested) {
      leave(node, "holds a graph of its own");
      return false;
    }
    const Status status = imported({node}, Constants::Probe);
    if (status || node_of(status)) return true;
    // With no place, it is the list of ops that are not supported: this one.
    leave(node, status.where().empty() ? "not supported" : std::string(status.what()));
    return false;
  }

  // What the importer says of these nodes; equal structures are asked for once.
  Status imported(const Group& group, Constants constants = Constants::Small) {
    const auto model = model_of(graph_, group, constants);
    if (!model) return model.status();
    const auto [slot, fresh] = imported_.try_emplace(model->bytes);
    if (fresh) slot->second = Graph::from_onnx(std::as_bytes(std::span(model->bytes))).status();
    return slot->second;
  }

  // Takes out nodes that the importer names until it reads every group that holds a product.
  std::vector<Group> importable_groups() {
    for (;;) {
      std::vector<Group> groups;
      bool changed = false;
      for (Group& group : groups_of(graph_, taken_)) {
        if (!has_product(graph_, group)) {
          for (const size_t node : group) reasons_[node] = "no matrix product near it";
        } else if (const Status status = imported(group); status) {
          groups.push_back(std::move(group));
        } else {
          exclude(group, status);
          changed = true;
        }
      }
      if (!changed) return groups;
    }
  }

  void exclude(const Group& group, const Status& status) {
    const auto index = node_of(status);
    if (index && *index < group.size()) return leave(group[*index], std::string(status.what()));
    for (const size_t node : group) leave(node, status.text());
  }

  void claim_parts(const Group& group) {
    choice_.notes.push_back("does not claim " + listed(group) +
                            " as one region: " + reasons_[group.front()]);
    for (const Group& part : products_of(graph_, group))
      if (part.size() < group.size() && is_importable(part)) claim(part);
  }

  bool is_importable(const Group& part) {
    const Status status = imported(part);
    if (!status) reject(part, status.text());
    return status.ok();
  }

  void reject(const Group& group, const std::string& reason) {
    for (const size_t node : group) reasons_[node] = reason;
  }

  bool claim(const Group& group) {
    const auto structure = model_of(graph_, group, Constants::Structure);
    const auto whole = model_of(graph_, group, Constants::All);
    if (!structure || !whole) {
      reject(group, (structure ? whole : structure).status().text());
      return false;
    }
    const Verdict verdict = judge_(graph_, *structure, *whole);
    if (!verdict.claim) {
      reject(group, verdict.why);
      return false;
    }
    auto region = Region::compile(graph_, *whole, options_);
    if (!region) {
      reject(group, region.status().text());
      return false;
    }
    for (const size_t node : group) reasons_.erase(node);
    choice_.notes.push_back("claims " + listed(group) +
                            (verdict.why.empty() ? "" : ": " + verdict.why));
    choice_.claims.push_back({group, *std::move(region)});
    return true;
  }

  // "3 nodes, MatMul (mm1), Add (add1), Relu (relu1)"
  std::string listed(const Group& group) const {
    std::string text = std::to_string(group.size()) + (group.size() == 1 ? " node" : " nodes");
    for (size_t i = 0; i < std::min(group.size(), kMostNamed); ++i) {
      const GraphNode& node = graph_.nodes[group[i]];
      text += ", " + op_name(node) + (node.name.empty() ? "" : " (" + node.name + ")");
    }
    return group.size() > kMostNamed ? text + " ..." : text;
  }

  void explain() {
    std::map<std::string, Group> by_reason;
    for (const auto& [node, reason] : reasons_) by_reason[reason].push_back(node);
    for (const auto& [reason, group] : by_reason)
      choice_.notes.push_back("leaves " + listed(group) + ": " + reason);
  }

  const GraphView& graph_;
  const Options& options_;
  const Judge& judge_;
  std::vector<bool> taken_;
  std::map<size_t, std::string> reasons_;  // by node that is left
  std::unordered_map<std::string, Status> imported_;
  Choice choice_;
};

}  // namespace

Choice choose(const GraphView& graph, const Options& options, const Judge& judge) {
  return Chooser(graph, options, judge).run();
}

}  // namespace attacca::ort
