#include "run/cpu/rows/join.hpp"

#include <algorithm>
#include <map>

namespace attacca::run {
namespace {

using fuse::Region;
using ir::Op;
using ir::Value;

class Joiner {
 public:
  explicit Joiner(const fuse::Partition& partition)
      : graph_(partition.graph),
        regions_(keep_regions(partition)),
        before_(regions_.size() + 1),
        dropped_(regions_.size(), false),
        users_(graph_.size()),
        makers_(graph_.size(), kNone) {
    for (uint32_t id = 0; id < graph_.size(); ++id)
      for (const Value operand : graph_.nodes()[id].operands) users_[operand.id].push_back({id});
    for (const ir::Output& output : graph_.outputs()) users_[output.value.id].push_back({kOutside});
    for (size_t i = 0; i < regions_.size(); ++i)
      for (const Value output : regions_[i].region.outputs) makers_[output.id] = i;
  }

  std::vector<CpuRegion> join() {
    for (uint32_t id = 0; id < graph_.size(); ++id) {
      if (graph_.nodes()[id].op == Op::Div) join_softmax({id});
      if (graph_.nodes()[id].op == Op::Mean) join_squares({id});
    }
    std::vector<CpuRegion> all;
    for (size_t i = 0; i < before_.size(); ++i) {
      for (CpuRegion& group : before_[i]) all.push_back(std::move(group));
      if (i < regions_.size() && !dropped_[i]) all.push_back(std::move(regions_[i]));
    }
    return all;
  }

 private:
  static constexpr size_t kNone = SIZE_MAX;
  static constexpr uint32_t kOutside = UINT32_MAX;  // a user of the graph's outputs

  const ir::Node& node(Value value) const { return graph_[value]; }
  // Such an op, in f32.
  bool is(Value value, Op op) const {
    if (node(value).op != op || !is_f32(value)) return false;
    const auto* attrs = std::get_if<ir::ElementwiseAttrs>(&node(value).attrs);
    return !attrs || attrs->compute.value_or(ir::DType::F32) == ir::DType::F32;
  }
  bool is_f32(Value value) const { return graph_.type(value).dtype == ir::DType::F32; }
  Value operand(Value value, size_t index) const { return node(value).operands[index]; }

  // The number of the last axes that it reduces, if it reduces these alone and keeps them.
  std::optional<size_t> last_axes(Value reduction) const {
    const auto& attrs = node(reduction).get<ir::ReductionAttrs>();
    const auto rank = static_cast<int64_t>(graph_.type(operand(reduction, 0)).shape.size());
    std::vector<int64_t> axes = attrs.axes;
    std::sort(axes.begin(), axes.end());
    const auto count = static_cast<int64_t>(axes.size());
    for (int64_t i = 0; i < count; ++i)
      if (axes[i] != rank - count + i) return std::nullopt;
    if (count == 0 || graph_.type(reduction).shape.size() != static_cast<size_t>(rank))
      return std::nullopt;
    return static_cast<size_t>(count);
  }

  bool is_read_by(Value value, std::vector<Value> readers) const {
    std::vector<Value> users = users_[value.id];
    const auto order = [](Value a, Value b) { return a.id < b.id; };
    std::sort(users.begin(), users.end(), order);
    std::sort(readers.begin(), readers.end(), order);
    return users == readers;
  }

  // The region that stores the value.
  Region* maker(Value value) {
    const size_t index = makers_[value.id];
    return index == kNone || dropped_[index] ? nullptr : &regions_[index].region;
  }
  // Whether a pointwise region computes these nodes and no other.
  bool is_pointwise_of(const Region* region, std::vector<Value> nodes) const {
    return region && region->kind == fuse::RegionKind::Pointwise && region->nodes == nodes;
  }
  bool reads(const Region& region, Value value) const {
    return std::count(region.inputs.begin(), region.inputs.end(), value) > 0;
  }
  static const epilogue::Output* output_of(const Region& region, Value value) {
    for (const epilogue::Output& output : region.epilogue.outputs)
      if (output.result == value) return &output;
    return nullptr;
  }

  // Whether the statistic is a region of its own, or the last output that its region makes of it.
  bool is_removable(Value reduction) {
    const Region* region = maker(reduction);
    if (!region) return false;
    if (region->kind == fuse::RegionKind::Single) return true;
    const epilogue::Output* output = output_of(*region, reduction);
    return output && output->kind == epilogue::OutputKind::RowReduce && region->outputs.size() > 1;
  }
  // No longer computed by the region that stores it.
  void remove(Value value) {
    const size_t index = makers_[value.id];
    Region& region = regions_[index].region;
    std::erase(region.outputs, value);
    if (region.outputs.empty()) {
      dropped_[index] = true;
      return;
    }
    std::erase_if(region.epilogue.outputs,
                  [&](const epilogue::Output& output) { return output.result == value; });
    region.epilogue = epilogue::canonicalize(region.epilogue);
  }

  // In front of the region of that index.
  void place(size_t index, RowGroup group, std::vector<Value> nodes, const Region* origin) {
    CpuRegion made;
    made.region.nodes = std::move(nodes);
    made.region.inputs = {group.x};
    for (const auto& output : {group.result, group.statistic})
      if (output) made.region.outputs.push_back(*output);
    made.origin = origin;
    made.rows = group;
    before_[index].push_back(std::move(made));
  }

  // quotient = exponential / sum(exponential), exponential = exp(x - max(x)).
  void join_softmax(Value quotient) {
    const Value exponential = operand(quotient, 0), sum = operand(quotient, 1);
    if (!is(quotient, Op::Div) || !is(exponential, Op::Exp) || !is(sum, Op::Sum)) return;
    const Value shifted = operand(exponential, 0);
    if (!is(shifted, Op::Sub) || operand(sum, 0) != exponential) return;
    const Value x = operand(shifted, 0), most = operand(shifted, 1);
    if (!is(most, Op::ReduceMax) || operand(most, 0) != x || !is_f32(x)) return;
    const auto axes = last_axes(most);
    if (!axes || axes != last_axes(sum) || !is_read_by(most, {shifted}) ||
        !is_read_by(shifted, {exponential}) || !is_read_by(exponential, {sum, quotient}) ||
        !is_read_by(sum, {quotient}))
      return;
    const Region* first = maker(exponential);
    if (!is_pointwise_of(first, {shifted, exponential}) || !reads(*first, x)) return;
    const size_t last = region_of(quotient);
    if (!is_removable(most) || !is_removable(sum) || last == kNone) return;
    Region& tail = regions_[last].region;
    RowGroup group{RowOp::Softmax, x, quotient, std::nullopt, *axes};
    if (tail.nodes.size() > 1) {
      if (!skip_quotient(tail, exponential, sum)) return;
      std::erase(tail.nodes, quotient);
      group.result = exponential;  // what the rest of the region reads
    } else {
      dropped_[last] = true;
    }
    remove(most);
    remove(sum);
    dropped_[makers_[exponential.id]] = true;
    place(last, group, {shifted, exponential, sum, quotient}, regions_[last].origin);
  }

  // The pointwise region that computes the node.
  size_t region_of(Value value) const {
    for (size_t i = 0; i < regions_.size(); ++i) {
      const Region& region = regions_[i].region;
      if (!dropped_[i] && region.kind == fuse::RegionKind::Pointwise &&
          std::count(region.nodes.begin(), region.nodes.end(), value))
        return i;
    }
    return kNone;
  }

  // Makes the region read the quotient where it reads the exponential. False: it does not divide
  // just these two.
  static bool skip_quotient(Region& region, Value exponential, Value sum) {
    epilogue::Epilogue epilogue = region.epilogue;
    const auto inputs = static_cast<int>(epilogue.inputs.size());
    const auto reads = [&](int value, Value source) {
      return value < inputs && epilogue.inputs[value].source == source &&
             epilogue.inputs[value].role != epilogue::Role::Accumulator;
    };
    for (size_t i = 0; i < epilogue.nodes.size(); ++i) {
      const epilogue::Node& division = epilogue.nodes[i];
      if (division.op != Op::Div || !reads(division.operands[0], exponential) ||
          !reads(division.operands[1], sum))
        continue;
      const int from = inputs + static_cast<int>(i), to = division.operands[0];
      for (epilogue::Node& node : epilogue.nodes)
        std::replace(node.operands.begin(), node.operands.end(), from, to);
      for (epilogue::Output& output : epilogue.outputs)
        if (output.value == from) output.value = to;
      region.epilogue = epilogue::canonicalize(epilogue);
      std::erase(region.inputs, sum);
      return true;
    }
    return false;
  }

  // The mean of squares of x, or of x - mean(x).
  void join_squares(Value statistic) {
    const Value square = operand(statistic, 0);
    if (!is(statistic, Op::Mean) || !is(square, Op::Square)) return;
    const Value x = operand(square, 0);
    const auto axes = last_axes(statistic);
    if (!axes || !is_f32(x) || !is_read_by(square, {statistic})) return;
    if (!join_centre(statistic, square, x, *axes)) join_mean_square(statistic, square, x, *axes);
  }

  bool join_centre(Value statistic, Value square, Value centred, size_t axes) {
    if (!is(centred, Op::Sub)) return false;
    const Value x = operand(centred, 0), mean = operand(centred, 1);
    if (!is(mean, Op::Mean) || operand(mean, 0) != x || !is_f32(x) || last_axes(mean) != axes ||
        !is_read_by(mean, {centred}))
      return false;
    const Region* region = maker(square);
    if (!is_pointwise_of(region, {centred, square}) || !reads(*region, x) ||
        maker(centred) != region || !is_removable(mean) || !is_removable(statistic))
      return false;
    const size_t index = makers_[square.id];
    remove(mean);
    remove(statistic);
    dropped_[index] = true;
    place(index, {RowOp::Centre, x, centred, statistic, axes}, {centred, square, statistic},
          regions_[index].origin);
    return true;
  }

  void join_mean_square(Value statistic, Value square, Value x, size_t axes) {
    if (!is_removable(statistic)) return;
    const size_t index = makers_[statistic.id];
    const bool alone = regions_[index].region.kind == fuse::RegionKind::Single;
    const bool stored = node(x).op == Op::Input || maker(x) != nullptr;
    if (!stored || (alone && !maker(square))) return;
    if (alone) remove(square);
    remove(statistic);
    place(alone ? index : index + 1, {RowOp::MeanSquare, x, std::nullopt, statistic, axes},
          {square, statistic}, regions_[index].origin);
  }

  const ir::Graph& graph_;
  std::vector<CpuRegion> regions_;
  std::vector<std::vector<CpuRegion>> before_;  // groups in front of each region
  std::vector<bool> dropped_;
  std::vector<std::vector<Value>> users_;
  std::vector<size_t> makers_;  // of stored values: the region's index
};

}  // namespace

std::vector<CpuRegion> keep_regions(const fuse::Partition& partition) {
  std::vector<CpuRegion> regions;
  for (const Region& region : partition.regions) regions.push_back({region, {}, &region});
  return regions;
}

std::vector<CpuRegion> join_rows(const fuse::Partition& partition) {
  return Joiner(partition).join();
}

}  // namespace attacca::run
