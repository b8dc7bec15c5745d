#include <set>

#include "fmt/format.h"

#include "fuse/workspace.hpp"

namespace attacca::fuse {
namespace {

using ir::Op;
using ir::Value;

class Check {
 public:
  explicit Check(const Partition& partition)
      : partition_(partition),
        graph_(partition.graph),
        live_(ir::live(graph_)),
        region_of_(graph_.size(), -1),
        available_(graph_.size(), false) {}

  Status run() {
    for (uint32_t id = 0; id < graph_.size(); ++id)
      available_[id] = is_given(graph_.nodes()[id].op);
    for (size_t i = 0; i < partition_.regions.size(); ++i)
      ATTACCA_TRY_VOID(check_region(static_cast<int>(i)));
    for (uint32_t id = 0; id < graph_.size(); ++id) ATTACCA_TRY_VOID(check_computed(Value{id}));
    for (const ir::Output& output : graph_.outputs())
      if (!available_[output.value.id])
        return fail(fmt::format("output {} is in no region's outputs", output.name));
    return {};
  }

 private:
  static bool is_given(Op op) { return op == Op::Input || op == Op::Constant; }

  Status check_region(int index) {
    const Region& region = partition_.regions[index];
    const std::string where = fmt::format("region {}", index);
    const auto label = [&](Value value) { return display_name(graph_, value); };
    for (const Value input : region.inputs)
      if (!available_[input.id])
        return fail(fmt::format("{} is read before it is computed", label(input)), where);
    for (const Value node : region.nodes) {
      if (region_of_[node.id] >= 0)
        return fail(fmt::format("{} is computed twice", label(node)), where);
      region_of_[node.id] = index;
    }
    for (const Value output : region.outputs) {
      if (region_of_[output.id] != index)
        return fail(fmt::format("{} is an output but not computed", label(output)), where);
      available_[output.id] = true;
    }
    if (region.kind == RegionKind::Single) return check_single(region, where);
    return check_fused(region, where);
  }

  Status check_single(const Region& region, const std::string& where) const {
    if (region.nodes.size() != 1 || region.outputs != region.nodes)
      return fail("a Single region of several nodes", where);
    return check_listed(region, graph_[region.nodes[0]].operands, where);
  }

  Status check_listed(const Region& region, const std::vector<Value>& sources,
                      const std::string& where) const {
    const std::set<Value> inputs(region.inputs.begin(), region.inputs.end());
    if (inputs.size() != region.inputs.size()) return fail("an input listed twice", where);
    for (const Value source : sources)
      if (!inputs.count(source))
        return fail(fmt::format("{} is read but not listed", display_name(graph_, source)), where);
    return {};
  }

  // Remembers the cast of B that the product does itself.
  void note_widened(const Gemm& gemm) {
    Value value = graph_[gemm.node].operands[1];
    while (is_view_op(graph_[value].op)) value = graph_[value].operands[0];
    if (graph_[value].op == Op::Cast &&
        graph_.type(graph_[value].operands[0]).dtype == gemm.b.dtype)
      widened_.insert(value);
  }

  Status check_fused(const Region& region, const std::string& where) {
    const size_t products = region.gemms.size();
    const bool is_kernel = region.kind == RegionKind::UserKernel;
    if (is_kernel != region.kernel.has_value()) return fail("a kernel in another region", where);
    const bool fits = is_kernel || region.kind == RegionKind::Pointwise ? products == 0
                      : region.kind == RegionKind::Gemm                 ? products == 1
                                                        : products == 1 || products == 2;
    if (!fits) return fail(fmt::format("{} products in a region of its kind", products), where);
    if (auto status = epilogue::verify(region.epilogue); !status) {
      Error error = status.error();
      error.where = where + ", " + error.where;
      return tl::make_unexpected(std::move(error));
    }
    std::vector<Value> sources;
    if (is_kernel) sources = graph_[*region.kernel].operands;
    for (const Gemm& gemm : region.gemms) {
      note_widened(gemm);
      sources.push_back(gemm.a.source);
      sources.push_back(gemm.b.source);
      if (gemm.a.rows) sources.push_back(gemm.a.rows->source);
      if (gemm.b.codes) sources.push_back(gemm.b.codes->scales);
      if (gemm.b.codes && gemm.b.codes->zeros) sources.push_back(*gemm.b.codes->zeros);
      for (const GemmOperand* operand : {&gemm.a, &gemm.b})
        if (operand->scales) sources.push_back(operand->scales->source);
      if (gemm.groups) sources.push_back(gemm.groups->source);
    }
    for (const epilogue::Input& input : region.epilogue.inputs) {
      if (input.role != epilogue::Role::Accumulator)
        sources.push_back(input.source);
      else if (static_cast<size_t>(input.gemm) >= (is_kernel ? 1 : products))
        return fail("an accumulator of no product", where);
      if (input.rows) sources.push_back(input.rows->source);
    }
    for (const epilogue::Output& output : region.epilogue.outputs)
      if (output.rows) {
        sources.push_back(output.base);
        sources.push_back(output.rows->source);
      }
    std::set<Value> stored;
    for (const epilogue::Output& output : region.epilogue.outputs) stored.insert(output.result);
    if (stored != std::set<Value>(region.outputs.begin(), region.outputs.end()) ||
        stored.size() != region.epilogue.outputs.size())
      return fail("the epilogue's outputs are not the region's", where);
    return check_listed(region, sources, where);
  }

  // Every live node is computed by a region, or it is a view, a gather, the numbers of groups, an
  // unpack, an mxfp4, a decode, a cast or a scale_blocks through which its readers read.
  Status check_computed(Value node) const {
    const ir::Op op = graph_[node].op;
    if (!live_[node.id] || is_given(op) || region_of_[node.id] >= 0 || is_view_op(op) ||
        op == Op::Unpack || op == Op::ScaleBlocks || op == Op::Gather || op == Op::GroupIds ||
        op == Op::MxFp4 || op == Op::Decode || widened_.count(node))
      return {};
    return fail(fmt::format("{} is computed by no region", display_name(graph_, node)));
  }

  const Partition& partition_;
  const ir::Graph& graph_;
  std::vector<bool> live_;
  std::vector<int> region_of_;
  std::vector<bool> available_;
  std::set<Value> widened_;
};

}  // namespace

Status verify(const Partition& partition) {
  return Check(partition).run();
}

}  // namespace attacca::fuse
