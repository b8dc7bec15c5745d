#include "fuse/explain/explain.hpp"

#include <algorithm>
#include <set>

#include "fmt/format.h"

#include "fuse/explain/common.hpp"
#include "ir/text/text.hpp"
#include "support/text/escaped.hpp"

namespace attacca::fuse {

using epilogue::Role;
using ir::Value;

std::string_view kind_name(RegionKind kind) {
  static constexpr std::string_view kNames[] = {"gemm", "gated gemm", "pointwise", "user kernel",
                                                "single"};
  return kNames[static_cast<size_t>(kind)];
}

std::map<Value, size_t> region_numbers(const Partition& partition) {
  std::map<Value, size_t> numbers;
  for (size_t i = 0; i < partition.regions.size(); ++i)
    for (const Value node : partition.regions[i].nodes) numbers[node] = i + 1;
  return numbers;
}

std::vector<Refusal> distinct_refusals(const Partition& partition) {
  std::set<std::tuple<Value, Value, std::string>> seen;
  std::vector<Refusal> result;
  for (const Refusal& refusal : partition.refusals)
    if (seen.insert({refusal.node, refusal.region_root, refusal.reason}).second)
      result.push_back(refusal);
  return result;
}

std::string call_text(const ir::Graph& graph, Value value) {
  const ir::Node& node = graph[value];
  if (node.op == ir::Op::Kernel) return print_expression(graph, value);
  std::vector<std::string> arguments;
  for (const Value operand : node.operands)
    arguments.push_back(graph[operand].literal ? fmt::format("{}", graph[operand].literal->value)
                                               : display_name(graph, operand));
  if (ir::is_reduction(node.op))
    arguments.push_back(
        fmt::format("axes=[{}]", fmt::join(node.get<ir::ReductionAttrs>().axes, ", ")));
  return fmt::format("{}({})", name(node.op), fmt::join(arguments, ", "));
}

std::string ops_text(const ir::Graph& graph, const Region& region) {
  std::vector<std::pair<std::string_view, size_t>> counts;
  for (const Value node : region.nodes) {
    const std::string_view name = ir::name(graph[node].op);
    const auto known = std::find_if(counts.begin(), counts.end(),
                                    [&](const auto& each) { return each.first == name; });
    if (known == counts.end())
      counts.emplace_back(name, 1);
    else
      ++known->second;
  }
  std::vector<std::string> parts;
  for (const auto& [name, count] : counts)
    parts.push_back(count == 1 ? std::string(name) : fmt::format("{} {}", count, name));
  return fmt::format("{}", fmt::join(parts, ", "));
}

namespace {

class Text {
 public:
  explicit Text(const Partition& partition)
      : partition_(partition), graph_(partition.graph), numbers_(region_numbers(partition)) {}

  std::string run(size_t index) {
    add_region(index + 1, partition_.regions[index]);
    return out_.substr(1);
  }

  std::string run() {
    out_ = fmt::format("graph {}\n", escaped(graph_.name));
    for (size_t i = 0; i < partition_.regions.size(); ++i) add_region(i + 1, partition_.regions[i]);
    add_refusals();
    return std::move(out_);
  }

 private:
  std::string label(Value value) const { return display_name(graph_, value); }

  void line(const std::string& text) { out_ += "  " + text + "\n"; }

  void add_region(size_t number, const Region& region) {
    out_ += fmt::format("\nregion {}: {}", number, kind_name(region.kind));
    if (region.kind == RegionKind::Single) {
      out_ += '\n';
      const Value node = region.nodes[0];
      line(fmt::format("{}: {} = {}", label(node), to_string(graph_.type(node)),
                       call_text(graph_, node)));
      return;
    }
    out_ += fmt::format(" over {}\n", to_string(region.epilogue.domain));
    if (region.kernel)
      line(fmt::format("{}: {} = {}", label(*region.kernel), to_string(graph_.type(*region.kernel)),
                       call_text(graph_, *region.kernel)));
    for (const Gemm& gemm : region.gemms) line(gemm_text(gemm));
    for (const epilogue::Input& input : region.epilogue.inputs)
      if (std::string text = input_text(region, input); !text.empty()) line(text);
    for (const epilogue::Output& output : region.epilogue.outputs)
      line(fmt::format("{}: {} = {}", label(output.result), to_string(graph_.type(output.result)),
                       print(region.epilogue, graph_, output)));
  }

  std::string gemm_text(const Gemm& gemm) const {
    const std::string batch = gemm.batch.empty() ? "" : fmt::format("{} x ", to_string(gemm.batch));
    const std::string groups =
        gemm.groups ? fmt::format(", rows of {} groups that end at {}",
                                  to_string(gemm.groups->count), label(gemm.groups->source))
                    : "";
    return fmt::format("{} = {} @ {}, {}{} x {} x {}, accumulated in {}{}", label(gemm.node),
                       operand_text(gemm.a), operand_text(gemm.b), batch, to_string(gemm.m),
                       to_string(gemm.n), to_string(gemm.k), name(gemm.accumulator), groups);
  }

  std::string operand_text(const GemmOperand& operand) const {
    const auto& strides = operand.access.strides;
    const bool transposed = strides[strides.size() - 2].is(1) && !strides.back().is(1);
    const std::string rows = operand.rows ? fmt::format("[{}]", label(operand.rows->source)) : "";
    const std::string scales =
        operand.scales  ? fmt::format(" by blocks of {}", label(operand.scales->source))
        : operand.codes ? fmt::format(" of {} by {}", codes_name(operand.codes->format),
                                      label(operand.codes->scales))
                        : "";
    return fmt::format("{}{}{}:{}{}", label(operand.source), rows, transposed ? "^T" : "",
                       name(operand.dtype), scales);
  }

  // An operand's dtype. For an accumulator the product and its columns, unless there is one.
  std::string input_text(const Region& region, const epilogue::Input& input) const {
    const std::string text = print(region.epilogue, graph_, input);
    if (input.role != Role::Accumulator) return fmt::format("{}: {}", text, name(input.dtype));
    if (region.kernel) return {};
    const bool whole = input.column_offset.is(0) && input.column_step == 1 &&
                       region.gemms[input.gemm].n == region.epilogue.domain.back();
    if (whole && region.kind == RegionKind::Gemm) return {};
    const std::string product = label(region.gemms[input.gemm].node);
    if (whole) return fmt::format("{}: {}", text, product);
    const ir::Dim first = input.column_offset;
    const std::string columns = input.column_step == 1
                                    ? fmt::format("{}:{}", to_string(first),
                                                  to_string(first + region.epilogue.domain.back()))
                                    : fmt::format("{}::{}", to_string(first), input.column_step);
    return fmt::format("{}: columns {} of {}", text, columns, product);
  }

  void add_refusals() {
    const std::vector<Refusal> refusals = distinct_refusals(partition_);
    if (refusals.empty()) return;
    out_ += "\nnot fused:\n";
    for (const Refusal& refusal : refusals) {
      const auto region = numbers_.find(refusal.region_root);
      const std::string after = refusal.node == refusal.region_root || region == numbers_.end()
                                    ? ""
                                    : fmt::format(" after region {}", region->second);
      line(fmt::format("{} ({}){}: {}", label(refusal.node), name(graph_[refusal.node].op), after,
                       refusal.reason));
    }
  }

  const Partition& partition_;
  const ir::Graph& graph_;
  std::map<Value, size_t> numbers_;
  std::string out_;
};

}  // namespace

std::string explain_text(const Partition& partition) {
  return Text(partition).run();
}

std::string region_text(const Partition& partition, size_t index) {
  return Text(partition).run(index);
}

}  // namespace attacca::fuse
