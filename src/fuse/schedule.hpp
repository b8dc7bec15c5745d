// Keeps groups of nodes executable as units: an order of all groups in which every group comes
// after everything it reads, kept valid while groups grow (the incremental topological order of
// Pearce and Kelly). A growth that would make two groups depend on each other is refused.
#pragma once

#include <vector>

#include "ir/graph/graph.hpp"

namespace attacca::fuse {

class Schedule {
 public:
  // `live` nodes other than inputs and constants start as groups of one, in graph order.
  Schedule(const ir::Graph& graph, const std::vector<std::vector<ir::Value>>& users,
           const std::vector<bool>& live);

  // A group's name is one of its members.
  uint32_t group_of(ir::Value value) const { return group_[value.id]; }
  bool scheduled(ir::Value value) const { return group_[value.id] != kNone; }
  // Groups run in ascending position.
  uint32_t position(uint32_t group) const { return position_[group]; }

  // Moves group `from`, one node, into `into`. Returns false, and joins nothing, if a group outside
  // would have to run between the two. REQUIRES: `from` reads or is read by `into`, or neither
  // depends on the other.
  bool join(uint32_t into, uint32_t from);
  // After a join that failed: the group that would have to run between the two.
  uint32_t blocker() const { return blocker_; }

  // Undoes every join since the mark.
  size_t mark() const { return log_.size(); }
  void rollback(size_t mark);

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  struct Change {
    uint32_t group;
    uint32_t old_position;  // or kNone: `group` was joined into `into`
    uint32_t into;
  };

  bool place_before(uint32_t group, uint32_t later);
  bool find_before(uint32_t start, uint32_t later);
  void find_after(uint32_t start, uint32_t limit);
  void move(uint32_t group, uint32_t position);
  template <class Visit>
  void for_each_read(uint32_t group, Visit visit) const;
  template <class Visit>
  void for_each_reader(uint32_t group, Visit visit) const;

  const ir::Graph& graph_;
  const std::vector<std::vector<ir::Value>>& users_;
  std::vector<uint32_t> group_;     // of a node, or kNone
  std::vector<uint32_t> position_;  // of a group
  std::vector<std::vector<uint32_t>> members_;
  std::vector<uint32_t> visited_;  // stamps
  uint32_t stamp_ = 0;
  uint32_t blocker_ = kNone;
  std::vector<uint32_t> before_, after_;
  std::vector<Change> log_;
};

}  // namespace attacca::fuse
