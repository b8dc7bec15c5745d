#include <set>

#include "fmt/format.h"

#include "fuse/explain/common.hpp"
#include "fuse/explain/explain.hpp"
#include "fuse/explain/overview.hpp"
#include "support/text/escaped.hpp"

namespace attacca::fuse {

using ir::Value;

std::string quoted(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    result += c == '\n' ? "\\n" : std::string(1, c);
  }
  return result + "\"";
}

std::string shortened(std::string_view full) {
  constexpr size_t kMost = 40, kBegin = 12, kEnd = 25;
  const std::string name = escaped(full);
  if (name.size() <= kMost) return name;
  // No character of several bytes is cut.
  const auto boundary = [&](size_t at) {
    while (at > 0 && (static_cast<unsigned char>(name[at]) & 0xC0) == 0x80) --at;
    return at;
  };
  return name.substr(0, boundary(kBegin)) + "..." + name.substr(boundary(name.size() - kEnd));
}

std::string_view colour(RegionKind kind) {
  static constexpr std::string_view kColours[] = {"#cfe8ff", "#d7f5d0", "#fff0c2", "#f3d9f5",
                                                  "#eeeeee"};
  return kColours[static_cast<size_t>(kind)];
}

namespace {

class Dot {
 public:
  explicit Dot(const Partition& partition)
      : partition_(partition), graph_(partition.graph), live_(ir::live(graph_)) {}

  std::string run() {
    begin();
    for (size_t i = 0; i < partition_.regions.size(); ++i) cluster(i + 1, partition_.regions[i]);
    const auto numbers = region_numbers(partition_);
    for (uint32_t id = 0; id < graph_.size(); ++id)
      if (shown(Value{id}) && !is_tensor(Value{id}) && !numbers.count(Value{id}))
        node(Value{id}, fmt::format("n{}", id), "  ");
    for (uint32_t id = 0; id < graph_.size(); ++id)
      if (shown(Value{id})) edges(Value{id});
    for (const ir::Output& output : graph_.outputs())
      out_ += fmt::format("  {0} [shape=plaintext, style=\"\", label={1}];\n  {2} -> {0};\n",
                          quoted("out:" + escaped(output.name)), quoted(shortened(output.name)),
                          source(output.value, "o" + escaped(output.name)));
    return out_ + "}\n";
  }

  std::string run(size_t index) {
    const Region& region = partition_.regions[index];
    begin();
    cluster(index + 1, region);
    std::set<Value> around;
    for (const Value member : region.nodes)
      for (const Value operand : graph_[member].operands)
        if (shown(operand) && !is_tensor(operand)) around.insert(operand);
    for (const Value member : region.nodes) around.erase(member);
    for (const Value value : around) node(value, fmt::format("n{}", value.id), "  ");
    for (const Value member : region.nodes) edges(member);
    return out_ + "}\n";
  }

 private:
  void begin() {
    out_ = fmt::format(
        "digraph {} {{\n  rankdir=TB;\n  newrank=true;\n  node [shape=box, "
        "style=\"rounded,filled\", "
        "fillcolor=white, fontname=\"Helvetica\"];\n",
        quoted(escaped(graph_.name)));
  }

  bool shown(Value value) const { return live_[value.id] && !graph_[value].literal; }

  // A constant stands beside each of its readers: lines from one that many share would cross the
  // whole picture.
  bool is_tensor(Value value) const { return graph_[value].op == ir::Op::Constant; }
  std::string source(Value value, const std::string& reader) {
    if (!is_tensor(value)) return fmt::format("n{}", value.id);
    const std::string own = quoted(fmt::format("n{} {}", value.id, reader));
    if (drawn_.insert(own).second) node(value, own, "  ");
    return own;
  }

  void cluster(size_t number, const Region& region) {
    out_ += fmt::format(
        "  subgraph cluster_{} {{\n    label={};\n    style=\"rounded,filled\";\n"
        "    fillcolor=\"{}\";\n",
        number, quoted(fmt::format("region {}: {}", number, kind_name(region.kind))),
        colour(region.kind));
    for (const Value member : region.nodes) node(member, fmt::format("n{}", member.id), "    ");
    out_ += "  }\n";
  }

  void node(Value value, std::string_view id, std::string_view indent) {
    const ir::Node& n = graph_[value];
    const bool given = n.op == ir::Op::Input || n.op == ir::Op::Constant;
    const std::string text = fmt::format(
        "{}{}{}", shortened(display_name(graph_, value)), given ? ": " : " = ",
        given ? to_string(n.type) : fmt::format("{}: {}", name(n.op), to_string(n.type)));
    out_ += fmt::format("{}{} [label={}{}];\n", indent, id, quoted(text),
                        given ? ", shape=ellipse" : "");
  }

  void edges(Value value) {
    for (const Value operand : graph_[value].operands)
      if (shown(operand)) {
        const std::string from = source(operand, fmt::format("n{}", value.id));
        out_ += fmt::format("  {} -> n{};\n", from, value.id);
      }
  }

  const Partition& partition_;
  const ir::Graph& graph_;
  std::vector<bool> live_;
  std::set<std::string> drawn_;  // constants beside their readers
  std::string out_;
};

}  // namespace

std::string explain_dot(const Partition& partition) {
  constexpr size_t kMostRegions = 60;
  return partition.regions.size() > kMostRegions ? overview_dot(partition) : Dot(partition).run();
}

std::string region_dot(const Partition& partition, size_t index) {
  return Dot(partition).run(index);
}

}  // namespace attacca::fuse
