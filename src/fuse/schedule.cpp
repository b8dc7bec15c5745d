#include "fuse/schedule.hpp"

#include <algorithm>

#include "support/check.hpp"

namespace attacca::fuse {

Schedule::Schedule(const ir::Graph& graph, const std::vector<std::vector<ir::Value>>& users,
                   const std::vector<bool>& live)
    : graph_(graph),
      users_(users),
      group_(graph.size(), kNone),
      position_(graph.size()),
      members_(graph.size()),
      visited_(graph.size(), 0) {
  for (uint32_t id = 0; id < graph.size(); ++id) {
    const ir::Op op = graph.nodes()[id].op;
    position_[id] = id;
    if (!live[id] || op == ir::Op::Input || op == ir::Op::Constant) continue;
    group_[id] = id;
    members_[id] = {id};
  }
}

template <class Visit>
void Schedule::for_each_read(uint32_t group, Visit visit) const {
  for (const uint32_t member : members_[group])
    for (const ir::Value operand : graph_.nodes()[member].operands) {
      const uint32_t other = group_[operand.id];
      if (other != kNone && other != group) visit(other);
    }
}

template <class Visit>
void Schedule::for_each_reader(uint32_t group, Visit visit) const {
  for (const uint32_t member : members_[group])
    for (const ir::Value user : users_[member]) {
      const uint32_t other = group_[user.id];
      if (other != kNone && other != group) visit(other);
    }
}

// Collects `start` and all that it reads, directly or not, from position_[later] on. Returns false
// if `later` is among them.
bool Schedule::find_before(uint32_t start, uint32_t later) {
  before_ = {start};
  visited_[start] = stamp_;
  bool reached = false;
  for (size_t next = 0; next < before_.size() && !reached; ++next)
    for_each_read(before_[next], [&](uint32_t read) {
      reached |= read == later;
      if (visited_[read] == stamp_ || position_[read] < position_[later]) return;
      visited_[read] = stamp_;
      before_.push_back(read);
    });
  return !reached;
}

// Collects `start` and its readers, direct or not, up to position `limit`.
void Schedule::find_after(uint32_t start, uint32_t limit) {
  after_ = {start};
  visited_[start] = stamp_;
  for (size_t next = 0; next < after_.size(); ++next)
    for_each_reader(after_[next], [&](uint32_t reader) {
      if (visited_[reader] == stamp_ || position_[reader] > limit) return;
      visited_[reader] = stamp_;
      after_.push_back(reader);
    });
}

void Schedule::move(uint32_t group, uint32_t position) {
  if (position_[group] == position) return;
  log_.push_back({group, position_[group], kNone});
  position_[group] = position;
}

// Reorders so that `group` runs before `later`; returns false if `group` depends on `later`.
bool Schedule::place_before(uint32_t group, uint32_t later) {
  if (position_[group] < position_[later]) return true;
  ++stamp_;
  if (!find_before(group, later)) return false;
  find_after(later, position_[group]);
  const auto earlier = [&](uint32_t a, uint32_t b) { return position_[a] < position_[b]; };
  std::sort(before_.begin(), before_.end(), earlier);
  std::sort(after_.begin(), after_.end(), earlier);
  std::vector<uint32_t> order = before_;
  order.insert(order.end(), after_.begin(), after_.end());
  std::vector<uint32_t> slots;
  for (const uint32_t moved : order) slots.push_back(position_[moved]);
  std::sort(slots.begin(), slots.end());
  for (size_t i = 0; i < order.size(); ++i) move(order[i], slots[i]);
  return true;
}

bool Schedule::join(uint32_t into, uint32_t from) {
  ATTACCA_CHECK(into != from && members_[from].size() == 1, "joining a group of one");
  bool possible = true;
  if (position_[from] > position_[into]) {
    for_each_read(from, [&](uint32_t read) {
      if (read == into || !possible) return;
      possible = place_before(read, into);
      if (!possible) blocker_ = read;
    });
  } else {
    // The nodes that `from` reads come first anyway; its readers must not come between.
    for_each_reader(from, [&](uint32_t reader) {
      if (reader == into) return;
      possible = false;
      blocker_ = reader;
    });
  }
  if (!possible) return false;
  group_[from] = into;
  members_[into].push_back(from);
  log_.push_back({from, kNone, into});
  return true;
}

void Schedule::rollback(size_t mark) {
  while (log_.size() > mark) {
    const Change change = log_.back();
    log_.pop_back();
    if (change.old_position != kNone) {
      position_[change.group] = change.old_position;
      continue;
    }
    ATTACCA_CHECK(members_[change.into].back() == change.group, "joins undone out of order");
    members_[change.into].pop_back();
    group_[change.group] = change.group;
  }
}

}  // namespace attacca::fuse
