#include "ir/text/call.hpp"

#include <algorithm>

#include "fmt/format.h"

#include "ir/text/compose.hpp"
#include "support/check.hpp"

namespace attacca::ir {
namespace {

// Names of ops in other libraries.
struct Alias {
  std::string_view foreign, own;
};
constexpr Alias kAliases[] = {
    {"maximum", "max"},      {"minimum", "min"},
    {"swish", "silu"},       {"mm", "matmul"},
    {"bmm", "matmul"},       {"linear", "matmul"},
    {"logistic", "sigmoid"}, {"astype", "cast"},
    {"to", "cast"},          {"view", "reshape"},
    {"cat", "concat"},       {"take", "gather"},
    {"t", "transpose"},      {"power", "pow"},
    {"select", "where"},     {"layer_norm", "layernorm"},
    {"rms_norm", "rmsnorm"}, {"expand", "broadcast"},
    {"amin", "reduce_min"},  {"divide", "div"},
    {"multiply", "mul"},     {"subtract", "sub"},
    {"inv", "reciprocal"},   {"chunk", "split"},
};

// A shape; only reshape leaves a dimension open, by -1.
Result<Shape> shape(Op op, Arguments& arguments) {
  if (op == Op::Arange) {
    ATTACCA_TRY(const Argument* bounds, arguments.require("bounds", 0, "arange([0, N])"));
    return arguments.as_list(*bounds);
  }
  const std::string example =
      op == Op::GroupIds ? "group_ids(offsets, [R])" : fmt::format("{}(x, [M, 64])", name(op));
  ATTACCA_TRY(const Argument* argument, arguments.require("shape", 1, example));
  ATTACCA_TRY(Shape shape, arguments.as_list(*argument));
  for (const Dim& dim : shape)
    if (dim.is_static() && dim.value() < 0 && !(op == Op::Reshape && dim.is(-1)))
      return arguments.expected(*argument, "a list of sizes >= 0",
                                op == Op::Reshape ? "one of them may be -1" : "");
  return shape;
}

Result<Attrs> matmul_attributes(Arguments& arguments) {
  MatMulAttrs attrs;
  ATTACCA_TRY(attrs.dtype, arguments.optional_dtype("out"));
  ATTACCA_TRY(attrs.fast, arguments.bool_or("fast", false));
  return attrs;
}

Result<Attrs> permute_attributes(Arguments& arguments) {
  ATTACCA_TRY(const Argument* axes, arguments.require("axes", 1, "permute(x, [0, 2, 1])"));
  ATTACCA_TRY(std::vector<int64_t> given, arguments.as_integers(*axes));
  return PermuteAttrs{std::move(given)};
}

Result<Attrs> reduction_attributes(Arguments& arguments) {
  ReductionAttrs attrs;
  if (const Argument* axes = arguments.take("axes")) {
    ATTACCA_TRY(attrs.axes, arguments.as_integers(*axes));
    if (attrs.axes.empty())
      return arguments.expected(*axes, "a list of axes",
                                "leave axes= out to reduce over all of them");
  }
  ATTACCA_TRY(attrs.keepdims, arguments.bool_or("keepdims", false));
  return attrs;
}

Result<Attrs> cast_attributes(Arguments& arguments) {
  CastAttrs attrs;
  ATTACCA_TRY(const Argument* dtype, arguments.require("dtype", 1, "cast(x, f32)"));
  ATTACCA_TRY(attrs.dtype, arguments.as_dtype(*dtype));
  ATTACCA_TRY(attrs.saturate, arguments.bool_or("saturate", false));
  ATTACCA_TRY(attrs.compute, arguments.optional_dtype("compute"));
  return attrs;
}

Result<Attrs> unpack_attributes(Arguments& arguments) {
  constexpr std::string_view kExample = "unpack(w, [4096, 4096], weights=s8, bits=4, group=128)";
  UnpackAttrs attrs;
  Packing& packing = attrs.packing;
  ATTACCA_TRY(const Argument* shape, arguments.require("shape", 1, kExample));
  ATTACCA_TRY(attrs.shape, arguments.as_list(*shape));
  ATTACCA_TRY(const Argument* weights, arguments.require("weights", -1, kExample));
  ATTACCA_TRY(packing.weights, arguments.as_dtype(*weights));
  ATTACCA_TRY(const int64_t bits, arguments.integer_or("bits", packing.bits));
  packing.bits = bits == 4 ? 4 : bits == 8 ? 8 : 0;
  ATTACCA_TRY(packing.group, arguments.integer_or("group", packing.group));
  ATTACCA_TRY(const std::optional<DType> scales, arguments.optional_dtype("scales"));
  packing.scales = scales.value_or(packing.scales);
  ATTACCA_TRY(packing.zeros, arguments.bool_or("zeros", packing.zeros));
  ATTACCA_TRY(const std::optional<DType> dtype, arguments.optional_dtype("dtype"));
  attrs.dtype = dtype.value_or(attrs.dtype);
  return attrs;
}

Result<Attrs> blocks_attributes(Arguments& arguments) {
  ATTACCA_TRY(const Argument* block,
              arguments.require("block", 2, "scale_blocks(q, scale, [1, 128])"));
  ATTACCA_TRY(std::vector<int64_t> extents, arguments.as_integers(*block));
  return BlocksAttrs{std::move(extents)};
}

Result<Attrs> decode_attributes(Arguments& arguments) {
  DecodeAttrs attrs;
  ATTACCA_TRY(attrs.bits, arguments.integer_or("bits", attrs.bits));
  ATTACCA_TRY(attrs.zero, arguments.integer_or("zero", attrs.zero));
  ATTACCA_TRY(const std::optional<DType> dtype, arguments.optional_dtype("dtype"));
  attrs.dtype = dtype.value_or(attrs.dtype);
  return attrs;
}

Result<Attrs> elementwise_attributes(const OpInfo& info, Arguments& arguments) {
  ElementwiseAttrs attrs;
  for (const Param& param : info.params) {
    ATTACCA_TRY(const double number, arguments.number_or(param.name, param.default_value));
    attrs.params.push_back(number);
  }
  ATTACCA_TRY(attrs.compute, arguments.optional_dtype("compute"));
  return attrs;
}

Result<Attrs> attributes(const OpInfo& info, Arguments& arguments) {
  switch (info.attributes) {
    case Attributes::None:
    case Attributes::Slice:
    case Attributes::Kernel:
      return NoAttrs{};
    case Attributes::MatMul:
      return matmul_attributes(arguments);
    case Attributes::Permute:
      return permute_attributes(arguments);
    case Attributes::Shape: {
      ATTACCA_TRY(Shape given, shape(info.op, arguments));
      return ShapeAttrs{std::move(given)};
    }
    case Attributes::Axis: {
      ATTACCA_TRY(const int64_t axis, arguments.integer_or("axis", 0));
      return AxisAttrs{axis};
    }
    case Attributes::Cast:
      return cast_attributes(arguments);
    case Attributes::Unpack:
      return unpack_attributes(arguments);
    case Attributes::Blocks:
      return blocks_attributes(arguments);
    case Attributes::Decode:
      return decode_attributes(arguments);
    case Attributes::Reduction:
      return reduction_attributes(arguments);
    case Attributes::Elementwise:
      return elementwise_attributes(info, arguments);
  }
  ATTACCA_CHECK(false, "an op of the table has attributes of no known kind");
}

using Values = std::vector<Value>;

Result<Values> one(Result<Value> value) {
  if (!value) return tl::make_unexpected(std::move(value).error());
  return Values{*value};
}

Result<Values> lower_softmax(Graph& graph, Arguments& arguments) {
  ATTACCA_TRY(const Value x, arguments.value("x", 0));
  ATTACCA_TRY(const int64_t axis, arguments.integer_or("axis", -1));
  ATTACCA_TRY_VOID(arguments.finish());
  return one(softmax(graph, x, axis));
}

Result<Values> lower_layernorm(Graph& graph, Arguments& arguments) {
  ATTACCA_TRY(const Value x, arguments.value("x", 0));
  ATTACCA_TRY(const std::optional<Value> weight, arguments.optional_value("weight", 1));
  ATTACCA_TRY(const std::optional<Value> bias, arguments.optional_value("bias", 2));
  ATTACCA_TRY(const double eps, arguments.number_or("eps", 1e-5));
  ATTACCA_TRY_VOID(arguments.finish());
  return one(layernorm(graph, x, weight, bias, eps));
}

Result<Values> lower_rmsnorm(Graph& graph, Arguments& arguments) {
  ATTACCA_TRY(const Value x, arguments.value("x", 0));
  ATTACCA_TRY(const std::optional<Value> weight, arguments.optional_value("weight", 1));
  ATTACCA_TRY(const double eps, arguments.number_or("eps", 1e-6));
  ATTACCA_TRY_VOID(arguments.finish());
  return one(rmsnorm(graph, x, weight, eps));
}

Result<Values> lower_split(Graph& graph, Arguments& arguments) {
  ATTACCA_TRY(const Value x, arguments.value("x", 0));
  ATTACCA_TRY(const Argument* parts, arguments.require("parts", 1, "a, b = split(x, 2, axis=-1)"));
  ATTACCA_TRY(const int64_t axis, arguments.integer_or("axis", -1));
  ATTACCA_TRY_VOID(arguments.finish());
  if (std::holds_alternative<std::vector<Dim>>(parts->of)) {
    ATTACCA_TRY(const std::vector<int64_t> sizes, arguments.as_integers(*parts));
    return split_sizes(graph, x, sizes, axis);
  }
  ATTACCA_TRY(const int64_t count, arguments.as_integer(*parts));
  return split(graph, x, count, axis);
}

Result<Values> lower_quantize(Graph& graph, Arguments& arguments) {
  ATTACCA_TRY(const Value x, arguments.value("x", 0));
  ATTACCA_TRY(const Argument* target,
              arguments.require("dtype", 3, "quantize(x, scale, 0, dtype=s8)"));
  ATTACCA_TRY(const DType dtype, arguments.as_dtype(*target));
  ATTACCA_TRY(const Value scale, arguments.value("scale", 1, graph.type(x).dtype));
  ATTACCA_TRY(const std::optional<Value> zero, arguments.optional_value("zero_point", 2, dtype));
  ATTACCA_TRY_VOID(arguments.finish());
  return one(quantize(graph, x, scale, zero, dtype));
}

Result<Values> lower_dequantize(Graph& graph, Arguments& arguments) {
  ATTACCA_TRY(const Value q, arguments.value("q", 0));
  ATTACCA_TRY(const Value scale, arguments.value("scale", 1));
  ATTACCA_TRY(const std::optional<Value> zero,
              arguments.optional_value("zero_point", 2, graph.type(q).dtype));
  const Argument* block = arguments.take("block");
  if (block == nullptr) {
    ATTACCA_TRY_VOID(arguments.finish());
    return one(dequantize(graph, q, scale, zero));
  }
  if (zero)
    return arguments.expected(*block, "no blocks beside a zero point",
                              "subtract the zero point from cast(q, f32)");
  ATTACCA_TRY(std::vector<int64_t> extents, arguments.as_integers(*block));
  ATTACCA_TRY_VOID(arguments.finish());
  return one(graph.add(Op::ScaleBlocks, {q, scale}, BlocksAttrs{std::move(extents)}));
}

struct Composition {
  std::string_view name;
  Result<Values> (*lower)(Graph&, Arguments&);
};
constexpr Composition kCompositions[] = {
    {"softmax", lower_softmax}, {"layernorm", lower_layernorm}, {"rmsnorm", lower_rmsnorm},
    {"split", lower_split},     {"quantize", lower_quantize},   {"dequantize", lower_dequantize},
};

const Composition* find_composition(std::string_view name) {
  for (const Composition& entry : kCompositions)
    if (entry.name == name) return &entry;
  return nullptr;
}

}  // namespace

bool is_call_name(std::string_view name) {
  const auto op = parse_op(name);
  return find_composition(name) || (op && *op != Op::Input && *op != Op::Slice);
}

std::string suggest_call(std::string_view name) {
  if (name == "slice") return "write x[:, begin:end:step]";
  for (const Alias& alias : kAliases)
    if (alias.foreign == name) return fmt::format("did you mean {}?", alias.own);
  std::vector<std::string_view> names;
  for (const Composition& entry : kCompositions) names.push_back(entry.name);
  for (const OpInfo& info : all_ops())
    if (is_call_name(info.name)) names.push_back(info.name);
  const std::string_view best = nearest(name, names);
  return best.empty() ? "see the ops in docs/text-format.md"
                      : fmt::format("did you mean {}?", best);
}

Result<std::vector<Value>> lower_call(Graph& graph, const SourceText& source, const Call& call) {
  Arguments arguments(graph, source, call);
  if (const Composition* composition = find_composition(call.name)) {
    auto values = composition->lower(graph, arguments);
    // Errors of the text have a place already; errors of the graph get the place of the call.
    if (!values && values.error().where.empty())
      return source.place(call.offset, std::move(values).error());
    return values;
  }
  const auto op = parse_op(call.name);
  ATTACCA_CHECK(op.has_value(), "a call of an unknown op");
  const OpInfo& row = info(*op);
  ATTACCA_TRY(
      const std::vector<Operand> operands,
      arguments.operands(static_cast<size_t>(row.min_arity), static_cast<size_t>(row.max_arity)));
  ATTACCA_TRY(Attrs attrs, attributes(row, arguments));
  ATTACCA_TRY_VOID(arguments.finish());
  ATTACCA_TRY(const Value value,
              add_node(graph, source, call.offset, row.op, operands, std::move(attrs)));
  return Values{value};
}

}  // namespace attacca::ir
