#include "ort/choose.hpp"

#include <algorithm>
#include <numeric>
#include <span>
#include <unordered_map>

#include "ort/shapes.hpp"

namespace attacca::ort {
namespace {

constexpr size_t kMostNamed = 8;

// A GPU has kernels for fewer dtypes and shapes than the importer reads. The model itself may limit
// its sizes, such as a table of positions: smaller ones are tried, too.
Status has_kernels(const Region& region, Sizes sizes, const Settings& settings) {
  if (settings.plan.device == "cpu") return {};
  Status first = region.prepares(sizes);
  for (const int64_t most : {16, 1}) {
    if (first) break;
    for (auto& [symbol, size] : sizes) size = std::min(size, most);
    if (region.prepares(sizes)) return {};
  }
  return first;
}

Result<Claim> compiled(const GraphView& graph, const Group& group, const Settings& settings) {
  auto model = model_of(graph, group, Constants::All);
  if (!model) return model.status();
  auto region = Region::compile(model->bytes, settings.plan);
  if (!region) return region.status();
  const Sizes sizes = typical_sizes(graph, (*region)->symbols(), *model, settings);
  if (Status status = has_kernels(**region, sizes, settings); !status) return status;
  Claim claim{group, *std::move(region), {}};
  std::vector<std::string> inputs, outputs;
  for (const std::string& name : claim.region->inputs())
    inputs.push_back(name_in(graph, *model, name));
  for (const size_t output : model->outputs) outputs.push_back(graph.values[output].name);
  claim.region->rename(std::move(inputs), std::move(outputs));
  if (settings.save) claim.model = (*std::move(model)).bytes;
  return claim;
}

class Chooser {
 public:
  Chooser(GraphView& graph, const Settings& settings, const Judge& judge)
      : graph_(graph), settings_(settings), judge_(judge), taken_(graph.nodes.size()) {}

  Choice run() {
    for (size_t node = 0; node < graph_.nodes.size(); ++node) taken_[node] = is_known(node);
    for (const Group& group : importable_groups())
      if (!claim(group)) claim_parts(group);
    check_all();
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
    if (is_left(known)) {
      leave(node, "ONNX Runtime has a kernel for it");
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
    const size_t first = choice_.claims.size();
    find_shapes(graph_, group, settings_);
    for (const Group& part : products_of(graph_, group))
      if (part.size() < group.size() && is_importable(part)) claim(part);
    if (first == choice_.claims.size()) return;
    const Verdict verdict = judge_(group, regions(first));
    if (!verdict.claim) drop(first, "together with what is around them " + verdict.why);
  }

  // What the claims cost beside nodes that they are not made of: ONNX Runtime may have fused over
  // their borders, and its threads share the cores.
  void check_all() {
    if (choice_.claims.empty() || choice_.claims.front().nodes.size() == graph_.nodes.size())
      return;
    Group all(graph_.nodes.size());
    std::iota(all.begin(), all.end(), size_t{0});
    if (!model_of(graph_, all, Constants::Structure)) return;  // it holds graphs
    const Verdict verdict = judge_(all, regions(0));
    if (verdict.measured && !verdict.claim) drop(0, "with them the model is " + verdict.why);
  }

  std::vector<Group> regions(size_t first) const {
    std::vector<Group> all;
    for (size_t i = first; i < choice_.claims.size(); ++i) all.push_back(choice_.claims[i].nodes);
    return all;
  }

  void drop(size_t first, const std::string& reason) {
    for (const Group& group : regions(first)) reject(group, reason);
    choice_.claims.resize(first);
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
    const Verdict verdict = judge_(group, {group});
    if (!verdict.claim) {
      reject(group, verdict.why);
      return false;
    }
    auto claim = compiled(graph_, group, settings_);
    if (!claim) {
      reject(group, claim.status().text());
      return false;
    }
    for (const size_t node : group) reasons_.erase(node);
    choice_.claims.push_back(*std::move(claim));
    choice_.claims.back().why = verdict.why;
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
    for (const Claim& claim : choice_.claims)
      choice_.notes.push_back("claims " + listed(claim.nodes) +
                              (claim.why.empty() ? "" : ": " + claim.why));
    std::map<std::string, Group> by_reason;
    for (const auto& [node, reason] : reasons_) by_reason[reason].push_back(node);
    for (const auto& [reason, group] : by_reason)
      choice_.notes.push_back("leaves " + listed(group) + ": " + reason);
  }

  GraphView& graph_;
  const Settings& settings_;
  const Judge& judge_;
  std::vector<bool> taken_;
  std::map<size_t, std::string> reasons_;  // by node that is left
  std::unordered_map<std::string, Status> imported_;
  Choice choice_;
};

}  // namespace

Choice choose(GraphView& graph, const Settings& settings, const Judge& judge) {
  return Chooser(graph, settings, judge).run();
}

Result<Choice> choose_named(const GraphView& graph, const Settings& settings) {
  Choice choice;
  std::vector<int64_t> owner(graph.nodes.size(), -1);
  for (const std::vector<std::string>& names : settings.nodes) {
    Group group;
    for (size_t node = 0; node < graph.nodes.size(); ++node)
      if (std::find(names.begin(), names.end(), graph.nodes[node].name) != names.end())
        group.push_back(node);
    if (group.empty()) continue;
    for (const size_t node : group) owner[node] = static_cast<int64_t>(choice.claims.size());
    if (!acyclic(graph, owner))
      return Status{"the region depends on itself through nodes outside of it",
                    "the option 'nodes', the region of " + names.front(),
                    "name the nodes between them too, or divide the region"};
    auto claim = compiled(graph, group, settings);
    if (!claim) return claim.status();
    choice.claims.push_back(*std::move(claim));
  }
  return choice;
}

}  // namespace attacca::ort
