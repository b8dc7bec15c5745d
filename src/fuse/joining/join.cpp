#include "fuse/joining/join.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "fmt/format.h"
#include "fmt/ranges.h"

#include "fold/quantized/rewriting.hpp"
#include "fuse/joining/chain.hpp"
#include "support/check.hpp"

namespace attacca::fuse {
namespace {

using ir::Op;
using ir::Value;

// Chains that are alike, in the order of their columns.
using Group = std::vector<Chain>;

// Slices begin where vectors of this many bytes do, and so do their rows.
constexpr int64_t kAlignment = 16;

bool keeps_alignment(const ir::Graph& graph, const Chain& chain) {
  const ir::Type& type = graph.type(chain.result());
  return type.shape.back().value() * ir::size_of(type.dtype) % kAlignment == 0;
}

// Whether two products multiply one value by constants.
bool may_join(const Partition& partition) {
  std::set<Value> multiplied;
  for (const Region& region : partition.regions)
    for (const Gemm& gemm : region.gemms)
      if (partition.graph[gemm.b.source].tensor && !multiplied.insert(gemm.a.source).second)
        return true;
  return false;
}

std::vector<Group> find_groups(const Facts& facts, const Partition& partition) {
  std::vector<Group> groups;
  std::multimap<Value, size_t> by_a;
  for (const Region& region : partition.regions) {
    auto chain = chain_of(facts, region);
    if (!chain || !keeps_alignment(facts.graph, *chain)) continue;
    const auto [begin, end] = by_a.equal_range(region.gemms[0].a.source);
    const auto alike = std::find_if(begin, end, [&](const auto& entry) {
      return are_alike(facts, groups[entry.second][0], *chain);
    });
    if (alike != end) {
      groups[alike->second].push_back(*std::move(chain));
    } else {
      by_a.emplace(region.gemms[0].a.source, groups.size());
      groups.push_back({*std::move(chain)});
    }
  }
  return groups;
}

// A group with its joined constants, by node and operand of its chains.
struct Recipe {
  Group chains;
  std::map<std::pair<size_t, size_t>, SideBySide> constants = {};

  const SideBySide* constant(size_t at, size_t index) const {
    const auto found = constants.find({at, index});
    return found == constants.end() ? nullptr : &found->second;
  }
};

std::optional<SideBySide> operands_side_by_side(const Facts& facts, const Group& chains, size_t at,
                                                size_t index) {
  const bool is_matmul = chains[0].nodes[at] == chains[0].matmul;
  std::vector<ConstantColumns> parts;
  for (const Chain& chain : chains) {
    const Value operand = facts.graph[chain.nodes[at]].operands[index];
    parts.push_back(is_matmul ? *constant_columns(facts.graph, facts.views, operand)
                              : *columns_of(facts, chain, operand));
  }
  return is_matmul ? matrices_side_by_side(std::move(parts)) : lists_side_by_side(std::move(parts));
}

// nullopt: memory ran out.
std::optional<Recipe> recipe_of(const Facts& facts, Group chains) {
  std::vector<const Chain*> all;
  for (const Chain& chain : chains) all.push_back(&chain);
  Recipe recipe;
  for (size_t at = 0; at < chains[0].nodes.size(); ++at) {
    const Value node = chains[0].nodes[at];
    for (size_t i = 0; i < facts.graph[node].operands.size(); ++i) {
      std::optional<Place> place = i == 1 ? Place::Columns : Place::Shared;
      if (node != chains[0].matmul) place = place_of(facts, all, at, i);
      ATTACCA_CHECK(place.has_value(), "joined products are not alike");
      if (place != Place::Columns) continue;
      auto constant = operands_side_by_side(facts, chains, at, i);
      if (!constant) return std::nullopt;
      recipe.constants.emplace(std::pair(at, i), *std::move(constant));
    }
  }
  recipe.chains = std::move(chains);
  return recipe;
}

// The graph with each group as one product.
class Joiner : fold::Rewriting {
 public:
  Joiner(const ir::Graph& graph, const std::vector<Recipe>& recipes)
      : Rewriting(graph), recipes_(recipes), joined_(recipes.size()) {
    for (size_t i = 0; i < recipes.size(); ++i)
      for (size_t j = 0; j < recipes[i].chains.size(); ++j)
        places_[recipes[i].chains[j].result()] = {i, j};
  }

  fold::FoldResult run() {
    fold::FoldResult result = rewrite([&](Value value, const ir::Node& node) {
      const auto place = places_.find(value);
      return place == places_.end() ? copy(node) : slice_of(place->second);
    });
    // Nodes that only the products read are dead.
    const std::vector<bool> live = ir::live(result.graph);
    const auto moves = [&](Value& value) {
      value.id = static_cast<uint32_t>(std::count(live.begin(), live.begin() + value.id, true));
    };
    for (auto& [slot, value] : slices_) moves(value);
    for (std::optional<Value>& value : joined_) moves(*value);
    result.graph = ir::without_dead_nodes(result.graph);
    return result;
  }

  // In the graph that run() returned: what chain j of recipe i is now, and what it is a slice of.
  Value slice(size_t i, size_t j) const { return slices_.at({i, j}); }
  Value product(size_t i) const { return *joined_[i]; }

 private:
  using Slot = std::pair<size_t, size_t>;  // the recipe, the chain

  // The first result that is reached is made of what its chain reads.
  Value slice_of(const Slot& slot) {
    const Recipe& recipe = recipes_[slot.first];
    const Chain& chain = recipe.chains[slot.second];
    std::optional<Value>& wide = joined_[slot.first];
    if (!wide) wide = join(recipe, chain);
    ir::SliceAttrs attrs;
    for (const ir::Dim& extent : shape(chain.result())) attrs.ranges.push_back({0, extent, 1});
    ir::Dim begin = 0;
    for (size_t i = 0; i < slot.second; ++i)
      begin = begin + shape(recipe.chains[i].result()).back();
    attrs.ranges.back() = {begin, begin + shape(chain.result()).back(), 1};
    return slices_[slot] = add(Op::Slice, {*wide}, std::move(attrs));
  }

  Value join(const Recipe& recipe, const Chain& copied) {
    std::vector<Value> made;
    for (size_t at = 0; at < copied.nodes.size(); ++at) {
      const ir::Node& node = from_[copied.nodes[at]];
      std::vector<Value> operands;
      for (size_t i = 0; i < node.operands.size(); ++i) {
        const auto member = member_index(copied, node.operands[i]);
        const SideBySide* constant = recipe.constant(at, i);
        operands.push_back(constant ? added(*constant)
                           : member ? made[*member]
                                    : moved_[node.operands[i].id]);
      }
      made.push_back(add(node.op, std::move(operands), node.attrs));
    }
    report(recipe.chains, made.back());
    return made.back();
  }

  Value added(const SideBySide& constant) {
    const Value value = into().constant(constant.tensor);
    return constant.transposed ? add(Op::Transpose, {value}) : value;
  }

  void report(const Group& chains, Value joined) {
    std::vector<std::string> names;
    for (const Chain& chain : chains)
      names.push_back(epilogue::display_name(from_, chain.result()));
    result_.applied.push_back(
        {"joined products", fmt::format("{} as slices of one {}", fmt::join(names, ", "),
                                        to_string(into().type(joined)))});
  }

  const std::vector<Recipe>& recipes_;
  std::map<Value, Slot> places_;  // of the results
  std::map<Slot, Value> slices_;
  std::vector<std::optional<Value>> joined_;
};

// Whether a value, or a view of it, is copied to memory of its own.
bool is_copied(const Facts& facts, const std::set<Value>& in_memory, Value value) {
  if (in_memory.contains(value)) return true;
  return std::any_of(facts.users[value.id].begin(), facts.users[value.id].end(), [&](Value user) {
    return is_view_op(facts.graph[user].op) && is_copied(facts, in_memory, user);
  });
}

// The chains that gain nothing by being joined: their slices are copied for their readers, or the
// joined product is no region of its own.
std::set<Value> losses(const Partition& cut, const Joiner& joiner,
                       const std::vector<Recipe>& recipes) {
  std::set<Value> in_memory, products;
  for (const Region& region : cut.regions) {
    in_memory.insert(region.outputs.begin(), region.outputs.end());
    if (region.kind == RegionKind::Gemm)
      products.insert(region.outputs.begin(), region.outputs.end());
  }
  const Facts facts(cut.graph);
  std::set<Value> lost;
  for (size_t i = 0; i < recipes.size(); ++i)
    for (size_t j = 0; j < recipes[i].chains.size(); ++j)
      if (!products.contains(joiner.product(i)) || is_copied(facts, in_memory, joiner.slice(i, j)))
        lost.insert(recipes[i].chains[j].result());
  return lost;
}

void drop(std::vector<Group>& groups, const std::set<Value>& lost) {
  for (Group& group : groups)
    std::erase_if(group, [&](const Chain& chain) { return lost.contains(chain.result()); });
  std::erase_if(groups, [](const Group& group) { return group.size() < 2; });
}

// Fills the joined constants, and says where those of the graph are now.
std::vector<MovedConstant> filled(std::vector<Recipe>& recipes) {
  std::vector<MovedConstant> all;
  for (Recipe& recipe : recipes)
    for (auto& [place, constant] : recipe.constants) {
      constant.fill();
      for (MovedConstant& each : constant.moved()) all.push_back(std::move(each));
    }
  return all;
}

}  // namespace

Joined join_products(Partition cut, const FuseOptions& options) {
  if (!may_join(cut)) return {std::move(cut), {}};
  const Facts facts(cut.graph);
  std::vector<Group> groups = find_groups(facts, cut);
  for (drop(groups, {}); !groups.empty();) {
    std::vector<Recipe> recipes;
    for (const Group& group : groups)
      if (auto recipe = recipe_of(facts, group)) recipes.push_back(*std::move(recipe));
    if (recipes.empty()) break;
    Joiner joiner(cut.graph, recipes);
    fold::FoldResult joined = joiner.run();
    Partition result = partition(std::move(joined.graph), options);
    const std::set<Value> lost = losses(result, joiner, recipes);
    if (lost.empty()) {
      return {std::move(result), std::move(joined.applied), filled(recipes)};
    }
    drop(groups, lost);
  }
  return {std::move(cut), {}};
}

}  // namespace attacca::fuse
