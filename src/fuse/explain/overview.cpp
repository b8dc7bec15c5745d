#include "fuse/explain/overview.hpp"

#include <algorithm>
#include <set>

#include "fmt/format.h"
#include "fmt/ranges.h"

#include "fuse/explain/common.hpp"
#include "support/text/escaped.hpp"

namespace attacca::fuse {
namespace {

constexpr size_t kLongestPart = 400;  // regions
constexpr size_t kMostInputs = 16;    // drawn: of more, those of fixed sizes are weights
constexpr int64_t kMostCompared = 200'000'000;

// What equal regions have in common.
std::string signature(const Partition& partition, const Region& region) {
  std::string text =
      fmt::format("{}: {}", kind_name(region.kind), ops_text(partition.graph, region));
  for (const ir::Value output : region.outputs)
    text += "; " + to_string(partition.graph.type(output));
  return text;
}

// Splits a range of regions at the repetition that saves the most boxes, if one saves any.
class Finder {
 public:
  explicit Finder(std::vector<size_t> kinds) : kinds_(std::move(kinds)) {}

  void find(size_t begin, size_t end, std::vector<Level>& into) {
    if (begin == end) return;
    const auto compared = static_cast<int64_t>((end - begin) * std::min(kLongestPart, end - begin));
    left_ -= compared;
    const Level best = left_ < 0 ? Level() : best_within(begin, end);
    if (best.times == 1) {
      into.push_back({begin, end - begin, 1});
      return;
    }
    find(begin, best.first, into);
    into.push_back(best);
    find(best.end(), end, into);
  }

 private:
  static size_t saved(const Level& level) { return level.length * (level.times - 1); }

  Level best_within(size_t begin, size_t end) const {
    Level best;
    const size_t longest = std::min(kLongestPart, (end - begin) / 2);
    for (size_t length = 1; length <= longest; ++length) {
      size_t equal = 0;  // regions from `at` on that equal those one part later
      for (size_t at = end - length; at-- > begin;) {
        equal = kinds_[at] == kinds_[at + length] ? equal + 1 : 0;
        const Level found{at, length, equal / length + 1};
        if (saved(found) > saved(best)) best = found;
      }
    }
    return best;
  }

  std::vector<size_t> kinds_;  // equal for regions that look alike
  int64_t left_ = kMostCompared;
};

class Overview {
 public:
  explicit Overview(const Partition& partition)
      : partition_(partition), graph_(partition.graph), levels_(levels(partition)) {
    for (const Level& level : levels_)
      for (size_t region = level.first; region < level.end(); ++region) level_of_.push_back(&level);
  }

  std::string run() {
    out_ =
        "digraph overview {\n  rankdir=TB;\n  newrank=true;\n  node [shape=box, "
        "style=\"rounded,filled\", fillcolor=white, fontname=\"Helvetica\"];\n";
    for (const Level& level : levels_) add(level);
    for (size_t i = 0; i < partition_.regions.size(); ++i)
      for (const ir::Value input : partition_.regions[i].inputs) edge(input, i);
    for (const ir::Output& output : graph_.outputs()) result(output);
    return out_ + "}\n";
  }

 private:
  void add(const Level& level) {
    if (level.times > 1)
      out_ += fmt::format(
          "  subgraph cluster_{0} {{\n    label=\"{1} times: regions {2} to {3}\";\n"
          "    fontname=\"Helvetica\";\n    style=\"rounded,filled\";\n"
          "    fillcolor=\"#f4f4f4\";\n",
          level.first, level.times, level.first + 1, level.end());
    for (size_t region = level.first; region < level.first + level.length; ++region) box(region);
    if (level.times > 1) out_ += "  }\n";
  }

  void box(size_t index) {
    const Region& region = partition_.regions[index];
    std::vector<std::string> types;
    for (const ir::Value output : region.outputs) types.push_back(to_string(graph_.type(output)));
    out_ +=
        fmt::format("    r{} [fillcolor=\"{}\", label={}];\n", index, colour(region.kind),
                    quoted(fmt::format("region {}: {}\n{}\n{}", index + 1, kind_name(region.kind),
                                       wrapped(ops_text(graph_, region)), fmt::join(types, "\n"))));
    for (const ir::Value output : region.outputs) makers_[output] = index;
    for (size_t next = index + level_of_[index]->length; next < level_of_[index]->end();
         next += level_of_[index]->length)
      for (const ir::Value output : partition_.regions[next].outputs) makers_[output] = next;
  }

  // The text in lines of about kWidth characters.
  static std::string wrapped(const std::string& text) {
    constexpr size_t kWidth = 36;
    std::string lines;
    size_t begin = 0;
    for (size_t at = 0; at < text.size(); ++at) {
      const bool breaks = text[at] == ' ' && at - begin >= kWidth;
      if (breaks) begin = at + 1;
      lines += breaks ? '\n' : text[at];
    }
    return lines;
  }

  // The region in whose place it is drawn.
  size_t drawn(size_t region) const {
    const Level& level = *level_of_[region];
    return level.first + (region - level.first) % level.length;
  }

  void edge(ir::Value value, size_t reader) {
    const auto maker = makers_.find(value);
    if (maker == makers_.end()) {
      input(value, reader);
      return;
    }
    const size_t from = maker->second;
    const Level& level = *level_of_[reader];
    const bool next = level_of_[from] == &level &&
                      (from - level.first) / level.length != (reader - level.first) / level.length;
    line(fmt::format("r{} -> r{}{}", drawn(from), drawn(reader),
                     next ? " [style=dashed, constraint=false]" : ""));
  }

  void input(ir::Value value, size_t reader) {
    const ir::Node& node = graph_[value];
    const bool few = graph_.inputs().size() <= kMostInputs || !is_static(node.type.shape);
    if (node.op != ir::Op::Input || !few) return;
    line(fmt::format(
        "n{} [shape=ellipse, label={}]", value.id,
        quoted(shortened(display_name(graph_, value)) + ": " + to_string(graph_.type(value)))));
    line(fmt::format("n{} -> r{}", value.id, drawn(reader)));
  }

  void result(const ir::Output& output) {
    const auto maker = makers_.find(output.value);
    if (maker == makers_.end()) return;
    line(fmt::format("{} [shape=plaintext, style=\"\", label={}]",
                     quoted("out:" + escaped(output.name)), quoted(shortened(output.name))));
    line(fmt::format("r{} -> {}", drawn(maker->second), quoted("out:" + escaped(output.name))));
  }

  void line(const std::string& text) {
    if (lines_.insert(text).second) out_ += "  " + text + ";\n";
  }

  const Partition& partition_;
  const ir::Graph& graph_;
  std::vector<Level> levels_;
  std::vector<const Level*> level_of_;  // by region
  std::map<ir::Value, size_t> makers_;  // regions
  std::set<std::string> lines_;         // each once
  std::string out_;
};

}  // namespace

std::vector<Level> levels(const Partition& partition) {
  std::map<std::string, size_t> numbers;
  std::vector<size_t> kinds;
  for (const Region& region : partition.regions)
    kinds.push_back(
        numbers.try_emplace(signature(partition, region), numbers.size()).first->second);
  std::vector<Level> found;
  Finder(kinds).find(0, kinds.size(), found);
  return found;
}

std::string overview_dot(const Partition& partition) {
  return Overview(partition).run();
}

}  // namespace attacca::fuse
