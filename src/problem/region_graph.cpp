#include "problem/region_graph.hpp"

#include <algorithm>
#include <map>

#include "fmt/format.h"

#include "fuse/device_options.hpp"
#include "ir/text/text.hpp"

namespace attacca::problem {
namespace {

using ir::Value;

class Extractor {
 public:
  Extractor(const ir::Graph& from, const fuse::Region& region) : from_(from), region_(region) {}

  Result<ir::Graph> run() {
    into_.name = "region";
    for (const Value value : region_.outputs) {
      ATTACCA_TRY(const Value copied, copy(value));
      into_.add_output(copied, region_value_name(from_, value));
    }
    return std::move(into_);
  }

 private:
  bool is_input(Value value) const {
    return std::find(region_.inputs.begin(), region_.inputs.end(), value) != region_.inputs.end();
  }

  Result<Value> copy(Value value) {
    if (const auto done = copies_.find(value); done != copies_.end()) return done->second;
    const ir::Node& node = from_[value];
    if (is_input(value) && !node.literal) {
      ATTACCA_TRY(copies_[value], into_.input(region_value_name(from_, value), node.type));
      return copies_[value];
    }
    std::vector<Value> operands;
    for (const Value operand : node.operands) {
      ATTACCA_TRY(const Value copied, copy(operand));
      operands.push_back(copied);
    }
    ATTACCA_TRY(copies_[value], copy_node(into_, node, std::move(operands)));
    return copies_[value];
  }

  const ir::Graph& from_;
  const fuse::Region& region_;
  ir::Graph into_;
  std::map<Value, Value> copies_;
};

}  // namespace

std::string region_value_name(const ir::Graph& graph, Value value) {
  if (!graph[value].name.empty()) return graph[value].name;
  std::string name = fmt::format("v{}", value.id);
  while (graph.find(name)) name += '_';
  return name;
}

Result<ir::Graph> region_graph(const ir::Graph& graph, const fuse::Region& region) {
  return Extractor(graph, region).run();
}

Result<ProblemText> write_problem(const ir::Graph& graph, const fuse::Region& region,
                                  const ir::SymbolValues& symbols, ir::Mode mode,
                                  const AlignmentOf& alignment_of) {
  ATTACCA_TRY(const ir::Graph alone, region_graph(graph, region));
  ProblemText text;
  text.graph = ir::print_graph(alone);
  text.symbols = symbols;
  text.mode = mode;
  // Inputs of the copy stand in the order in which the extraction met them; their names lead back.
  std::map<std::string, Value, std::less<>> by_name;
  for (const Value value : region.inputs) by_name[region_value_name(graph, value)] = value;
  for (const auto& [name, value] : by_name) text.alignments[name] = alignment_of(value);
  for (size_t i = 0; i < region.outputs.size(); ++i)
    text.alignments[alone.outputs()[i].name] = alignment_of(region.outputs[i]);
  return text;
}

Result<fuse::Partition> cut_problem(const ProblemText& text) {
  ATTACCA_TRY(ir::Graph graph, ir::parse_graph(text.graph, "problem"));
  fuse::Partition partition = fuse::partition(std::move(graph), fuse::gpu_options());
  if (partition.regions.size() != 1 || partition.regions[0].kind == fuse::RegionKind::Single)
    return fail(fmt::format("the problem has {} regions", partition.regions.size()), "problem",
                "give a graph that fuses into one region");
  return partition;
}

AlignmentOf alignments_of(const ir::Graph& graph, const ProblemText& text) {
  return [&graph, &text](Value value) {
    auto found = text.alignments.find(graph[value].name);
    for (const ir::Output& output : graph.outputs())
      if (found == text.alignments.end() && output.value == value)
        found = text.alignments.find(output.name);
    return found == text.alignments.end() ? 16 : found->second;
  };
}

Result<Problem> read_problem(const ProblemText& text) {
  ATTACCA_TRY(const fuse::Partition partition, cut_problem(text));
  ATTACCA_TRY(Problem problem, concretize(partition.regions[0], partition.graph, text.symbols,
                                          text.mode, alignments_of(partition.graph, text)));
  if (text.batch_invariant) make_batch_invariant(problem);
  return problem;
}

}  // namespace attacca::problem
