#include "fmt/format.h"

#include "fuse/explain.hpp"
#include "fuse/explain_common.hpp"
#include "support/json.hpp"

namespace attacca::fuse {
namespace {

using epilogue::Role;
using ir::Value;

// An integer where it is known, else the expression.
Json json_of(const ir::Dim& dim) {
  if (const auto value = dim.maybe_value()) return *value;
  return to_string(dim);
}

Json json_of(const ir::Shape& shape) {
  Json array = Json::array();
  for (const ir::Dim& dim : shape) array.push(json_of(dim));
  return array;
}

class Writer {
 public:
  explicit Writer(const Partition& partition)
      : partition_(partition), graph_(partition.graph), numbers_(region_numbers(partition)) {}

  Json run() const {
    Json regions = Json::array();
    for (size_t i = 0; i < partition_.regions.size(); ++i)
      regions.push(region_json(i + 1, partition_.regions[i]));
    Json refusals = Json::array();
    for (const Refusal& refusal : distinct_refusals(partition_))
      refusals.push(refusal_json(refusal));
    return Json::object()
        .set("format", "attacca.explain/1")
        .set("graph", graph_.name)
        .set("regions", std::move(regions))
        .set("not_fused", std::move(refusals));
  }

 private:
  Json names(const std::vector<Value>& values) const {
    Json array = Json::array();
    for (const Value value : values) array.push(display_name(graph_, value));
    return array;
  }

  Json region_json(size_t number, const Region& region) const {
    Json json = Json::object();
    json.set("region", number).set("kind", kind_name(region.kind));
    json.set("ops", ops(region));
    json.set("inputs", names(region.inputs)).set("outputs", names(region.outputs));
    if (region.kind == RegionKind::Single) return json;
    Json gemms = Json::array();
    for (const Gemm& gemm : region.gemms) gemms.push(gemm_json(gemm));
    json.set("gemms", std::move(gemms));
    json.set("epilogue", epilogue_json(region.epilogue));
    return json;
  }

  Json ops(const Region& region) const {
    Json array = Json::array();
    for (const Value node : region.nodes)
      array.push(
          Json::object().set("name", display_name(graph_, node)).set("op", name(graph_[node].op)));
    return array;
  }

  Json gemm_json(const Gemm& gemm) const {
    return Json::object()
        .set("node", display_name(graph_, gemm.node))
        .set("batch", json_of(gemm.batch))
        .set("m", json_of(gemm.m))
        .set("n", json_of(gemm.n))
        .set("k", json_of(gemm.k))
        .set("accumulator", name(gemm.accumulator))
        .set("a", operand_json(gemm.a))
        .set("b", operand_json(gemm.b));
  }

  Json operand_json(const GemmOperand& operand) const {
    Json json = Json::object();
    json.set("source", display_name(graph_, operand.source)).set("dtype", name(operand.dtype));
    add_access(json, operand.access);
    return json;
  }

  static void add_access(Json& json, const epilogue::Access& access) {
    json.set("offset", json_of(access.offset)).set("strides", json_of(access.strides));
  }

  Json epilogue_json(const epilogue::Epilogue& epilogue) const {
    Json inputs = Json::array(), outputs = Json::array();
    for (const auto& input : epilogue.inputs) inputs.push(input_json(epilogue, input));
    for (const auto& output : epilogue.outputs) outputs.push(output_json(epilogue, output));
    return Json::object()
        .set("hash", fmt::format("{:016x}", hash(epilogue)))
        .set("domain", json_of(epilogue.domain))
        .set("inputs", std::move(inputs))
        .set("outputs", std::move(outputs));
  }

  Json input_json(const epilogue::Epilogue& epilogue, const epilogue::Input& input) const {
    Json json = Json::object();
    json.set("text", print(epilogue, graph_, input))
        .set("role", name(input.role))
        .set("dtype", name(input.dtype));
    if (input.role == Role::Accumulator)
      return json.set("gemm", input.gemm)
          .set("column_offset", json_of(input.column_offset))
          .set("column_step", input.column_step)
          .set("rounded", name(input.rounded));
    json.set("source", display_name(graph_, input.source));
    add_access(json, input.access);
    return json;
  }

  Json output_json(const epilogue::Epilogue& epilogue, const epilogue::Output& output) const {
    static constexpr std::string_view kKinds[] = {"store", "row_reduce", "column_reduce",
                                                  "full_reduce"};
    Json json = Json::object();
    json.set("name", display_name(graph_, output.result))
        .set("kind", kKinds[static_cast<size_t>(output.kind)])
        .set("dtype", name(output.dtype))
        .set("expression", print(epilogue, graph_, output));
    add_access(json, output.access);
    return json;
  }

  Json refusal_json(const Refusal& refusal) const {
    const auto region = numbers_.find(refusal.region_root);
    Json json = Json::object();
    json.set("node", display_name(graph_, refusal.node)).set("op", name(graph_[refusal.node].op));
    json.set("region", region == numbers_.end() ? Json() : Json(region->second));
    return json.set("reason", refusal.reason);
  }

  const Partition& partition_;
  const ir::Graph& graph_;
  std::map<Value, size_t> numbers_;
};

}  // namespace

std::string explain_json(const Partition& partition) {
  return Writer(partition).run().dump() + "\n";
}

}  // namespace attacca::fuse
