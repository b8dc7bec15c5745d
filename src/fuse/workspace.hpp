// What the steps of partition() share: facts about the graph, and drafts of regions.
#pragma once

#include <deque>
#include <list>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "fuse/fuse.hpp"
#include "fuse/schedule.hpp"
#include "fuse/views.hpp"

namespace attacca::fuse {

// The matrix products from which a value is computed by elementwise ops and views only.
struct Feeds {
  static constexpr uint32_t kNone = UINT32_MAX;
  uint32_t first = kNone, second = kNone;
  bool more = false;
  bool any() const { return first != kNone; }
  void add(uint32_t id);
  void add(const Feeds& other);
};

struct Facts {
  explicit Facts(const ir::Graph& graph);

  // Whether two values correspond element for element in row-major order.
  bool correspond(ir::Value a, ir::Value b) const;
  // Whether an access over a value's axes is that of a contiguous tensor, from its first element.
  bool is_dense(ir::Value value, const Access& access) const;

  const ir::Graph& graph;
  std::vector<bool> live;
  std::vector<std::vector<ir::Value>> users;  // live ones
  std::vector<bool> is_output;
  std::vector<ir::Dim> count;  // elements
  std::vector<View> views;
  std::vector<Feeds> feeds;
};

using epilogue::display_name;

// Ops of an epilogue's expression: each element of the result depends on one element of each
// operand.
bool is_pointwise(ir::Op op);

bool is_product(ir::Op op);

// Ops that start regions and read their operands from memory.
bool starts_region(ir::Op op);

// Which element of a value each point of a region's domain reads: the value is seen in a frame. In
// the root frame, nullptr, it is the element at the same place in row-major order. Every other
// frame leads over one op, `through`, from a value that is seen in frame `up`:
// - from the op's result to an operand. For s = h[:, 64:] with s in the root frame, h is seen in
//   {root, s}: point (i, j) reads element (i, j) of s, which is element (i, j + 64) of h.
// - `behind`: from the operand of a transpose, permute or reshape to its result. For
//   t = transpose(g) with g in the root frame, t is seen in {root, t, behind}: point (i, j) reads
//   element (i, j) of g, which is element (j, i) of t.
struct Frame {
  const Frame* up = nullptr;
  ir::Value through;
  bool behind = false;
};

class Frames {
 public:
  Frames(const Facts& facts, ir::Shape domain) : facts_(&facts), domain_(std::move(domain)) {}
  const ir::Shape& domain() const { return domain_; }
  const Frame* root() const { return nullptr; }
  // The frame of `operand` where `user` is seen in `frame`.
  const Frame* read(const Frame* frame, ir::Value user, ir::Value operand);
  // The frame of a view's result where its operand is seen in `frame`. REQUIRES: a transpose, a
  // permute or a reshape.
  const Frame* behind(const Frame* frame, ir::Value view);
  // An access over the axes of `value`, seen in `frame`, as one over the domain's axes.
  std::optional<Access> to_domain(const Frame* frame, ir::Value value, Access access) const;

 private:
  const Facts* facts_;
  ir::Shape domain_;
  std::map<std::pair<const Frame*, uint32_t>, Frame> interned_;
  std::list<Frame> behind_;
};

// A region under construction. Its nodes are owned by `id` (Workspace::owner).
struct Draft {
  struct Member {
    ir::Value node;
    size_t mark;  // of the schedule before the node joined
  };
  int id = 0;
  RegionKind kind = RegionKind::Gemm;
  std::vector<ir::Value> gemms;  // the products, or the user's kernel: its accumulators
  Frames frames;
  ir::Dim count;                // elements of the domain
  std::vector<Member> members;  // in the order they joined
  size_t fixed = 0;             // the first members, which must stay
  std::set<uint32_t> reduced;   // members that reduce the domain: nothing inside reads them
  // Frames of the members that are read in other frames than the root.
  std::map<uint32_t, std::vector<const Frame*>> seen_in = {};
  std::vector<Refusal> refusals = {};

  ir::Value root() const { return members.front().node; }
  std::vector<const Frame*> frames_of(ir::Value node) const {
    const auto found = seen_in.find(node.id);
    return found == seen_in.end() ? std::vector<const Frame*>{nullptr} : found->second;
  }
  // The frame of a member behind a view; nullptr for others.
  const Frame* behind(ir::Value node) const {
    const Frame* frame = frames_of(node).front();
    return frame && frame->behind ? frame : nullptr;
  }
};

struct Workspace {
  static constexpr int kFree = -1;

  Workspace(const ir::Graph& graph, const FuseOptions& options)
      : options(options),
        facts(graph),
        schedule(graph, facts.users, facts.live),
        owner(graph.size(), kFree) {}

  const ir::Graph& graph() const { return facts.graph; }
  bool owns(const Draft& draft, ir::Value value) const { return owner[value.id] == draft.id; }

  // A draft of one node, which it owns.
  Draft start(RegionKind kind, ir::Value root, ir::Shape domain);
  // Adds a node; false, and nothing changes, if the schedule cannot place it.
  bool join(Draft& draft, ir::Value node);
  // Removes the members from index `keep` on, latest first.
  void drop(Draft& draft, size_t keep);
  // Turns the draft into a region.
  void commit(Draft draft);

  const FuseOptions options;  // normalized: each is set only if those that it needs are, too
  Facts facts;
  Schedule schedule;
  std::vector<int> owner;
  std::deque<Draft> drafts;
  std::vector<Refusal> refusals;
  int next_id = 0;
};

}  // namespace attacca::fuse
