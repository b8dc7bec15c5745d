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

  const ir::Graph& graph;
  std::vector<bool> live;
  std::vector<std::vector<ir::Value>> users;  // live ones
  std::vector<bool> is_output;
  std::vector<ir::Dim> count;  // elements
  std::vector<View> views;
  std::vector<Feeds> feeds;
};

using epilogue::display_name;

// Ops of an epilogue's expression: each element of the result is of one element of each operand.
bool is_pointwise(ir::Op op);

bool is_product(ir::Op op);

// Ops that start regions and read their operands from memory.
bool starts_region(ir::Op op);

// Which element of a value each point of a region's domain reads. In the root frame it is the
// element at the same place in row-major order. In another frame it is the element that the node
// `through` reads for the point, and frame `up` says which element of `through` that is. Behind a
// view it is the element of the view `through` that stands for its operand's element in frame `up`.
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
  // The frame of a member behind a view; nullptr of others.
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

  const FuseOptions options;  // each set only if those that it needs are, too
  Facts facts;
  Schedule schedule;
  std::vector<int> owner;
  std::deque<Draft> drafts;
  std::vector<Refusal> refusals;
  int next_id = 0;
};

// Adds every node that can join, in graph order, then operands that only the region reads. Records
// a reason for each node that cannot join.
void grow(Workspace& work, Draft& draft);

// Drafts of users' kernels with their tails and of all matrix products, then of the elementwise ops
// that joined none.
void draft_kernels(Workspace& work);
void draft_gemms(Workspace& work);
void draft_pointwise(Workspace& work);
// The unfused path: every op a draft of its own.
void draft_alone(Workspace& work);

// Drafts as regions, everything else as Single, in an order in which they can run.
Partition assemble(Workspace& work, ir::Graph graph);

// The unpack op whose result, transposed and the same for all batches, is B of this product. It
// reads an input or a constant.
std::optional<ir::Value> packed_weights(const Facts& facts, ir::Value matmul);

// The cast of bytes, an input or a constant, to A's dtype of 16 bits whose result, possibly
// transposed, is B of this product.
std::optional<ir::Value> widened_weights(const Facts& facts, ir::Value matmul);

// The op that computes B of this product and that the product's kernel does itself: what
// packed_weights() or widened_weights() finds, where such kernels are wanted.
std::optional<ir::Value> inner_weights(const Workspace& work, ir::Value matmul);

// The scale_blocks ops whose results are A and B of this product, B possibly transposed. Their
// values are 8-bit floats in the blocks of fuse::BlockScales.
struct ScaledOperands {
  ir::Value of[2];
};
std::optional<ScaledOperands> scaled_operands(const Facts& facts, ir::Value matmul);

// An operand that is read where it is gathered from: the gather's operand and its index.
struct GatheredRows {
  ir::Value source;
  Access access;  // over [rows, columns]
  epilogue::RowIndex rows;
};
// Of the gather whose result, as it is, is A of this product, or the numbers of A's blocks.
std::optional<GatheredRows> gathered_a(const Workspace& work, ir::Value matmul);
// Of the gather that an operand of a member reads, seen in a frame.
std::optional<GatheredRows> gathered_operand(const Workspace& work, const Draft& draft,
                                             ir::Value operand, const Frame* frame);

// A matrix of which each row of a grouped product reads the row of its group.
struct RowsOfGroups {
  ir::Value source;
  Access access;  // over [groups, columns]
};
// Of the gather by the numbers of the rows' groups that an operand of a member reads, seen in a
// frame.
std::optional<RowsOfGroups> operand_of_groups(const Workspace& work, const Draft& draft,
                                              ir::Value operand, const Frame* frame);

// The mxfp4 or decode op that B of this product reads, if the product widens its weights itself.
std::optional<ir::Value> coded_weights(const Workspace& work, ir::Value matmul);

// Why no kernel's epilogue can compute this node; empty if one can.
std::string dtype_obstacle(const ir::Graph& graph, ir::Value node);
// Why a node of this op is never part of an epilogue's expression.
std::string structural_reason(const ir::Graph& graph, ir::Value node);
// Why a matrix product cannot be a Gemm region; empty if it can.
std::string gemm_obstacle(const ir::Graph& graph, ir::Value matmul);

}  // namespace attacca::fuse
