#include "support/text/json.hpp"

#include "fmt/format.h"

#include "fuse/explain/common.hpp"
#include "fuse/explain/explain.hpp"
#include "ir/text/text.hpp"

namespace attacca::fuse {
namespace {

using epilogue::Role;
using ir::Value;

// An integer where it is known, else the expression.
json::Value json_of(const ir::Dim& dim) {
  if (const auto value = dim.maybe_value()) return *value;
  return to_string(dim);
}

json::Value json_of(const ir::Shape& shape) {
  json::Value array = json::Value::array();
  for (const ir::Dim& dim : shape) array.push(json_of(dim));
  return array;
}

class Writer {
 public:
  explicit Writer(const Partition& partition)
      : partition_(partition), graph_(partition.graph), numbers_(region_numbers(partition)) {}

  json::Value run() const {
    json::Value regions = json::Value::array();
    for (size_t i = 0; i < partition_.regions.size(); ++i)
      regions.push(region_json(i + 1, partition_.regions[i]));
    json::Value refusals = json::Value::array();
    for (const Refusal& refusal : distinct_refusals(partition_))
      refusals.push(refusal_json(refusal));
    return json::Value::object()
        .set("format", "attacca.explain/1")
        .set("graph", graph_.name)
        .set("regions", std::move(regions))
        .set("not_fused", std::move(refusals));
  }

 private:
  json::Value names(const std::vector<Value>& values) const {
    json::Value array = json::Value::array();
    for (const Value value : values) array.push(epilogue::node_name(graph_, value));
    return array;
  }

  json::Value region_json(size_t number, const Region& region) const {
    json::Value entry = json::Value::object();
    entry.set("region", number).set("kind", kind_name(region.kind));
    entry.set("ops", ops(region));
    entry.set("inputs", names(region.inputs)).set("outputs", names(region.outputs));
    if (region.kind == RegionKind::Single) return entry;
    if (region.kernel) entry.set("kernel", kernel_json(*region.kernel));
    json::Value gemms = json::Value::array();
    for (const Gemm& gemm : region.gemms) gemms.push(gemm_json(gemm));
    entry.set("gemms", std::move(gemms));
    entry.set("epilogue", epilogue_json(region.epilogue));
    return entry;
  }

  json::Value ops(const Region& region) const {
    json::Value array = json::Value::array();
    for (const Value node : region.nodes)
      array.push(json::Value::object()
                     .set("name", epilogue::node_name(graph_, node))
                     .set("op", name(graph_[node].op)));
    return array;
  }

  json::Value kernel_json(Value value) const {
    const ir::KernelCall& call = graph_[value].get<ir::KernelAttrs>().call;
    return json::Value::object()
        .set("node", epilogue::node_name(graph_, value))
        .set("file", call.file)
        .set("entry", call.entry)
        .set("type", to_string(graph_.type(value)))
        .set("text", ir::print_expression(graph_, value));
  }

  json::Value gemm_json(const Gemm& gemm) const {
    json::Value entry = json::Value::object();
    entry.set("node", epilogue::node_name(graph_, gemm.node))
        .set("batch", json_of(gemm.batch))
        .set("m", json_of(gemm.m))
        .set("n", json_of(gemm.n))
        .set("k", json_of(gemm.k))
        .set("accumulator", name(gemm.accumulator))
        .set("a", operand_json(gemm.a))
        .set("b", operand_json(gemm.b));
    if (gemm.groups)
      entry.set("groups", json_of(gemm.groups->count))
          .set("offsets", epilogue::node_name(graph_, gemm.groups->source));
    return entry;
  }

  json::Value operand_json(const GemmOperand& operand) const {
    json::Value entry = json::Value::object();
    entry.set("source", epilogue::node_name(graph_, operand.source))
        .set("dtype", name(operand.dtype));
    add_access(entry, operand.access);
    add_rows(entry, operand.rows);
    if (const auto& codes = operand.codes) {
      const std::string scales = epilogue::node_name(graph_, codes->scales);
      if (codes->format.mxfp4)
        entry.set("mxfp4_scales", scales);
      else
        entry.set("codes", to_string(codes->format)).set("code_scales", scales);
      if (codes->zeros) entry.set("code_zeros", epilogue::node_name(graph_, *codes->zeros));
    }
    return entry;
  }

  void add_rows(json::Value& entry, const std::optional<epilogue::RowIndex>& rows) const {
    if (rows) entry.set("rows", epilogue::node_name(graph_, rows->source));
  }

  static void add_access(json::Value& entry, const epilogue::Access& access) {
    entry.set("offset", json_of(access.offset)).set("strides", json_of(access.strides));
  }

  json::Value epilogue_json(const epilogue::Epilogue& epilogue) const {
    json::Value inputs = json::Value::array(), outputs = json::Value::array();
    for (const auto& input : epilogue.inputs) inputs.push(input_json(epilogue, input));
    for (const auto& output : epilogue.outputs) outputs.push(output_json(epilogue, output));
    return json::Value::object()
        .set("hash", fmt::format("{:016x}", hash(epilogue)))
        .set("domain", json_of(epilogue.domain))
        .set("inputs", std::move(inputs))
        .set("outputs", std::move(outputs));
  }

  json::Value input_json(const epilogue::Epilogue& epilogue, const epilogue::Input& input) const {
    json::Value entry = json::Value::object();
    entry.set("text", print(epilogue, graph_, input))
        .set("role", name(input.role))
        .set("dtype", name(input.dtype));
    if (input.role == Role::Accumulator)
      return entry.set("gemm", input.gemm)
          .set("column_offset", json_of(input.column_offset))
          .set("column_step", input.column_step)
          .set("rounded", name(input.rounded));
    entry.set("source", epilogue::node_name(graph_, input.source));
    add_access(entry, input.access);
    add_rows(entry, input.rows);
    if (input.group_stride) entry.set("group_stride", json_of(*input.group_stride));
    return entry;
  }

  json::Value output_json(const epilogue::Epilogue& epilogue,
                          const epilogue::Output& output) const {
    static constexpr std::string_view kKinds[] = {"store",       "row_reduce",  "column_reduce",
                                                  "full_reduce", "scatter_add", "batch_reduce"};
    json::Value entry = json::Value::object();
    entry.set("name", epilogue::node_name(graph_, output.result))
        .set("kind", kKinds[static_cast<size_t>(output.kind)])
        .set("dtype", name(output.dtype))
        .set("expression", print(epilogue, graph_, output));
    add_access(entry, output.access);
    add_rows(entry, output.rows);
    if (output.rows) entry.set("base", epilogue::node_name(graph_, output.base));
    return entry;
  }

  json::Value refusal_json(const Refusal& refusal) const {
    const auto region = numbers_.find(refusal.region_root);
    json::Value entry = json::Value::object();
    entry.set("node", epilogue::node_name(graph_, refusal.node))
        .set("op", name(graph_[refusal.node].op));
    entry.set("region", region == numbers_.end() ? json::Value() : json::Value(region->second));
    return entry.set("reason", refusal.reason);
  }

  const Partition& partition_;
  const ir::Graph& graph_;
  std::map<Value, size_t> numbers_;
};

}  // namespace

json::Value explain_json(const Partition& partition) {
  return Writer(partition).run();
}

}  // namespace attacca::fuse
