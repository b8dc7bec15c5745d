#include "ir/call.hpp"

#include <algorithm>
#include <cmath>

#include "fmt/format.h"
#include "fmt/ranges.h"

#include "ir/compose.hpp"
#include "support/check.hpp"

namespace attacca::ir {
namespace {

// Takes arguments by position and keyword; what nobody took is an error that lists what is known.
class Lowering {
 public:
  Lowering(Graph& graph, const SourceText& source, const Call& call)
      : graph_(graph), source_(source), call_(call), taken_(call.arguments.size(), false) {}

  Result<std::vector<Value>> run();

 private:
  using Composition = Result<std::vector<Value>> (Lowering::*)();
  static Composition find_composition(std::string_view name);

  Result<std::vector<Value>> table_op(const OpInfo& info);
  Result<std::vector<Operand>> operands(const OpInfo& info);
  Status attributes(const OpInfo& info, Attrs& attrs);
  Status reduction_attributes(Attrs& attrs);
  Result<Shape> shape(Op op);

  Result<std::vector<Value>> softmax();
  Result<std::vector<Value>> layernorm();
  Result<std::vector<Value>> rmsnorm();
  Result<std::vector<Value>> split();
  Result<std::vector<Value>> quantize();
  Result<std::vector<Value>> dequantize();

  // The argument of this keyword, or else (position >= 0) the positional one; nullptr where the
  // call has neither.
  const Argument* take(std::string_view keyword, int position = -1);
  const Argument* positional(size_t position) const;
  Result<const Argument*> require(std::string_view keyword, int position, std::string_view example);
  // Every argument must have been taken.
  Status finish() const;

  Result<Operand> as_operand(const Argument& argument) const;
  Result<double> as_number(const Argument& argument) const;
  Result<int64_t> as_integer(const Argument& argument) const;
  Result<bool> as_bool(const Argument& argument) const;
  Result<DType> as_dtype(const Argument& argument) const;
  Result<std::vector<Dim>> as_list(const Argument& argument) const;
  Result<std::vector<int64_t>> as_integers(const Argument& argument) const;

  Result<Value> value(std::string_view keyword, int position, std::optional<DType> peer = {});
  Result<std::optional<Value>> optional_value(std::string_view keyword, int position,
                                              std::optional<DType> peer = {});
  Result<int64_t> integer_or(std::string_view keyword, int64_t otherwise);
  Result<double> number_or(std::string_view keyword, double otherwise);

  tl::unexpected<Error> expected(const Argument& argument, std::string_view what,
                                 std::string mend = {}) const {
    const std::string name =
        argument.keyword.empty() ? "this argument" : fmt::format("{}=", argument.keyword);
    return source_.fail(argument.offset, fmt::format("{} of {} must be {}", name, call_.name, what),
                        std::move(mend));
  }
  template <class T>
  Result<std::vector<Value>> placed(Result<T> result) const {
    if (!result) return source_.place(call_.offset, std::move(result).error());
    if constexpr (std::is_same_v<T, Value>)
      return std::vector<Value>{*result};
    else
      return std::move(*result);
  }

  Graph& graph_;
  const SourceText& source_;
  const Call& call_;
  std::vector<bool> taken_;
  std::vector<std::string_view> known_;  // keywords asked for so far
};

// What people call ops elsewhere.
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

Lowering::Composition Lowering::find_composition(std::string_view name) {
  struct Entry {
    std::string_view name;
    Composition lower;
  };
  static constexpr Entry kEntries[] = {
      {"softmax", &Lowering::softmax},   {"layernorm", &Lowering::layernorm},
      {"rmsnorm", &Lowering::rmsnorm},   {"split", &Lowering::split},
      {"quantize", &Lowering::quantize}, {"dequantize", &Lowering::dequantize},
  };
  for (const Entry& entry : kEntries)
    if (entry.name == name) return entry.lower;
  return nullptr;
}

constexpr std::string_view kCompositionNames[] = {"softmax", "layernorm", "rmsnorm",
                                                  "split",   "quantize",  "dequantize"};

Result<std::vector<Value>> Lowering::run() {
  if (const Composition composition = find_composition(call_.name)) {
    ATTACCA_TRY(std::vector<Value> results, (this->*composition)());
    return results;
  }
  const std::optional<Op> op = parse_op(call_.name);
  if (op == Op::Slice)
    return source_.fail(call_.offset, "slice is written with brackets",
                        "write x[:, begin:end:step]");
  if (!op || *op == Op::Input)
    return source_.fail(call_.offset, fmt::format("unknown op {}", call_.name),
                        suggest_op(call_.name));
  return table_op(info(*op));
}

Result<std::vector<Value>> Lowering::table_op(const OpInfo& info) {
  ATTACCA_TRY(const std::vector<Operand> operands, this->operands(info));
  Attrs attrs;
  ATTACCA_TRY_VOID(attributes(info, attrs));
  ATTACCA_TRY_VOID(finish());
  ATTACCA_TRY(const Value value,
              add_node(graph_, source_, call_.offset, info.op, operands, std::move(attrs)));
  return std::vector<Value>{value};
}

// The leading positional expressions, as many as the op has operands.
Result<std::vector<Operand>> Lowering::operands(const OpInfo& info) {
  std::vector<Operand> result;
  const size_t most = static_cast<size_t>(info.max_arity);
  for (size_t i = 0; result.size() < most; ++i) {
    const Argument* argument = positional(i);
    if (argument == nullptr) break;
    const bool list = std::holds_alternative<std::vector<Dim>>(argument->of);
    if (list && i > 0 && result.size() >= static_cast<size_t>(info.min_arity)) break;
    if (list && info.op == Op::Concat)
      return expected(*argument, "a value, not a list", "write concat(a, b, axis=-1)");
    ATTACCA_TRY(Operand operand, as_operand(*argument));
    taken_[static_cast<size_t>(argument - call_.arguments.data())] = true;
    result.push_back(operand);
  }
  if (result.size() < static_cast<size_t>(info.min_arity))
    return source_.fail(call_.offset,
                        fmt::format("{} takes {} operand{}, got {}", info.name, info.min_arity,
                                    info.min_arity == 1 ? "" : "s", result.size()),
                        fmt::format("give {} the missing operand", info.name));
  return result;
}

Status Lowering::attributes(const OpInfo& info, Attrs& attrs) {
  switch (info.attributes) {
    case Attributes::None:
    case Attributes::Slices:
      return {};
    case Attributes::DType:
      if (const Argument* out = take("out")) {
        ATTACCA_TRY(attrs.dtype, as_dtype(*out));
      }
      return {};
    case Attributes::Axes: {
      ATTACCA_TRY(const Argument* axes, require("axes", 1, "permute(x, [0, 2, 1])"));
      ATTACCA_TRY(attrs.axes, as_integers(*axes));
      return {};
    }
    case Attributes::Shape: {
      ATTACCA_TRY(attrs.shape, shape(info.op));
      return {};
    }
    case Attributes::Axis: {
      ATTACCA_TRY(attrs.axis, integer_or("axis", 0));
      return {};
    }
    case Attributes::Cast: {
      ATTACCA_TRY(const Argument* dtype, require("dtype", 1, "cast(x, f32)"));
      ATTACCA_TRY(attrs.dtype, as_dtype(*dtype));
      if (const Argument* saturate = take("saturate")) {
        ATTACCA_TRY(attrs.saturate, as_bool(*saturate));
      }
      return {};
    }
    case Attributes::Reduction:
      return reduction_attributes(attrs);
    case Attributes::Params:
      for (const Param& param : info.params) {
        ATTACCA_TRY(const double number, number_or(param.name, param.default_value));
        attrs.params.push_back(number);
      }
      if (const Argument* compute = take("compute")) {
        ATTACCA_TRY(attrs.compute, as_dtype(*compute));
      }
      return {};
  }
  ATTACCA_CHECK(false, "an op of the table has attributes of no known kind");
}

Status Lowering::reduction_attributes(Attrs& attrs) {
  if (const Argument* axes = take("axes")) {
    ATTACCA_TRY(attrs.axes, as_integers(*axes));
    if (attrs.axes.empty())
      return expected(*axes, "a list of axes", "leave axes= out to reduce over all of them");
  }
  if (const Argument* keepdims = take("keepdims")) {
    ATTACCA_TRY(attrs.keepdims, as_bool(*keepdims));
  }
  return {};
}

// A shape; only reshape leaves a dimension open, by -1.
Result<Shape> Lowering::shape(Op op) {
  ATTACCA_TRY(const Argument* argument,
              require("shape", 1, fmt::format("{}(x, [M, 64])", call_.name)));
  ATTACCA_TRY(Shape shape, as_list(*argument));
  for (const Dim& dim : shape)
    if (dim.is_static() && dim.value() < 0 && !(op == Op::Reshape && dim.is(-1)))
      return source_.fail(argument->offset, fmt::format("negative dimension {}", dim.value()),
                          "use sizes >= 0");
  return shape;
}

const Argument* Lowering::positional(size_t position) const {
  for (const Argument& argument : call_.arguments)
    if (argument.keyword.empty() && position-- == 0) return &argument;
  return nullptr;
}

const Argument* Lowering::take(std::string_view keyword, int position) {
  known_.push_back(keyword);
  for (size_t i = 0; i < call_.arguments.size(); ++i)
    if (call_.arguments[i].keyword == keyword) {
      taken_[i] = true;
      return &call_.arguments[i];
    }
  const Argument* found = position < 0 ? nullptr : positional(static_cast<size_t>(position));
  if (found != nullptr) taken_[static_cast<size_t>(found - call_.arguments.data())] = true;
  return found;
}

Result<const Argument*> Lowering::require(std::string_view keyword, int position,
                                          std::string_view example) {
  if (const Argument* argument = take(keyword, position)) return argument;
  return source_.fail(call_.offset, fmt::format("{} needs its {}", call_.name, keyword),
                      fmt::format("write it as in {}", example));
}

Status Lowering::finish() const {
  for (size_t i = 0; i < taken_.size(); ++i) {
    if (taken_[i]) continue;
    const Argument& argument = call_.arguments[i];
    const std::string keywords = known_.empty()
                                     ? fmt::format("{} takes no keywords", call_.name)
                                     : fmt::format("{} takes {}", call_.name,
                                                   fmt::join(known_.begin(), known_.end(), "=, ")) +
                                           "=";
    if (argument.keyword.empty())
      return source_.fail(argument.offset, fmt::format("too many arguments for {}", call_.name),
                          known_.empty() ? "remove it" : "remove it, or name it: " + keywords);
    const auto earlier =
        std::find_if(call_.arguments.begin(), call_.arguments.begin() + static_cast<ptrdiff_t>(i),
                     [&](const Argument& other) { return other.keyword == argument.keyword; });
    if (earlier != call_.arguments.begin() + static_cast<ptrdiff_t>(i))
      return source_.fail(argument.offset, fmt::format("{}= is given twice", argument.keyword),
                          "remove one");
    return source_.fail(argument.offset,
                        fmt::format("{} has no keyword {}", call_.name, argument.keyword),
                        keywords);
  }
  return {};
}

Result<Operand> Lowering::as_operand(const Argument& argument) const {
  if (const auto* operand = std::get_if<Operand>(&argument.of)) return *operand;
  return expected(argument, "a value");
}

Result<double> Lowering::as_number(const Argument& argument) const {
  const auto* operand = std::get_if<Operand>(&argument.of);
  if (operand && operand->number() && operand->number()->kind != NumberKind::Boolean)
    return operand->number()->value;
  return expected(argument, "a number");
}

Result<int64_t> Lowering::as_integer(const Argument& argument) const {
  const auto* operand = std::get_if<Operand>(&argument.of);
  constexpr double kLimit = 0x1p53;
  if (operand && operand->number() && operand->number()->kind == NumberKind::Integer &&
      std::fabs(operand->number()->value) <= kLimit)
    return static_cast<int64_t>(operand->number()->value);
  return expected(argument, "an integer");
}

Result<bool> Lowering::as_bool(const Argument& argument) const {
  const auto* operand = std::get_if<Operand>(&argument.of);
  if (operand && operand->number() && operand->number()->kind == NumberKind::Boolean)
    return operand->number()->value != 0;
  return expected(argument, "true or false");
}

Result<DType> Lowering::as_dtype(const Argument& argument) const {
  if (const auto* dtype = std::get_if<DType>(&argument.of)) return *dtype;
  return expected(argument, "a dtype", fmt::format("use one of {}", all_dtype_names()));
}

Result<std::vector<Dim>> Lowering::as_list(const Argument& argument) const {
  if (const auto* list = std::get_if<std::vector<Dim>>(&argument.of)) return *list;
  return expected(argument, "a list", "write it as [2, 3]");
}

Result<std::vector<int64_t>> Lowering::as_integers(const Argument& argument) const {
  ATTACCA_TRY(const std::vector<Dim> list, as_list(argument));
  std::vector<int64_t> integers;
  for (const Dim& dim : list) {
    if (!dim.is_static()) return expected(argument, "a list of integers");
    integers.push_back(dim.value());
  }
  return integers;
}

Result<Value> Lowering::value(std::string_view keyword, int position, std::optional<DType> peer) {
  ATTACCA_TRY(const Argument* argument, require(keyword, position, "softmax(x)"));
  ATTACCA_TRY(const Operand operand, as_operand(*argument));
  return materialise(graph_, source_, operand, peer);
}

Result<std::optional<Value>> Lowering::optional_value(std::string_view keyword, int position,
                                                      std::optional<DType> peer) {
  const Argument* argument = take(keyword, position);
  if (argument == nullptr) return std::nullopt;
  ATTACCA_TRY(const Operand operand, as_operand(*argument));
  ATTACCA_TRY(const Value value, materialise(graph_, source_, operand, peer));
  return value;
}

Result<int64_t> Lowering::integer_or(std::string_view keyword, int64_t otherwise) {
  const Argument* argument = take(keyword);
  return argument ? as_integer(*argument) : Result<int64_t>(otherwise);
}

Result<double> Lowering::number_or(std::string_view keyword, double otherwise) {
  const Argument* argument = take(keyword);
  return argument ? as_number(*argument) : Result<double>(otherwise);
}

Result<std::vector<Value>> Lowering::softmax() {
  ATTACCA_TRY(const Value x, value("x", 0));
  ATTACCA_TRY(const int64_t axis, integer_or("axis", -1));
  ATTACCA_TRY_VOID(finish());
  return placed(ir::softmax(graph_, x, axis));
}

Result<std::vector<Value>> Lowering::layernorm() {
  ATTACCA_TRY(const Value x, value("x", 0));
  ATTACCA_TRY(const std::optional<Value> weight, optional_value("weight", 1));
  ATTACCA_TRY(const std::optional<Value> bias, optional_value("bias", 2));
  ATTACCA_TRY(const double eps, number_or("eps", 1e-5));
  ATTACCA_TRY_VOID(finish());
  return placed(ir::layernorm(graph_, x, weight, bias, eps));
}

Result<std::vector<Value>> Lowering::rmsnorm() {
  ATTACCA_TRY(const Value x, value("x", 0));
  ATTACCA_TRY(const std::optional<Value> weight, optional_value("weight", 1));
  ATTACCA_TRY(const double eps, number_or("eps", 1e-6));
  ATTACCA_TRY_VOID(finish());
  return placed(ir::rmsnorm(graph_, x, weight, eps));
}

Result<std::vector<Value>> Lowering::split() {
  ATTACCA_TRY(const Value x, value("x", 0));
  ATTACCA_TRY(const Argument* parts, require("parts", 1, "a, b = split(x, 2, axis=-1)"));
  ATTACCA_TRY(const int64_t axis, integer_or("axis", -1));
  ATTACCA_TRY_VOID(finish());
  if (std::holds_alternative<std::vector<Dim>>(parts->of)) {
    ATTACCA_TRY(const std::vector<int64_t> sizes, as_integers(*parts));
    return placed(split_sizes(graph_, x, sizes, axis));
  }
  ATTACCA_TRY(const int64_t count, as_integer(*parts));
  return placed(ir::split(graph_, x, count, axis));
}

Result<std::vector<Value>> Lowering::quantize() {
  ATTACCA_TRY(const Argument* target, require("dtype", 3, "quantize(x, scale, 0, dtype=s8)"));
  ATTACCA_TRY(const DType dtype, as_dtype(*target));
  ATTACCA_TRY(const Value x, value("x", 0));
  ATTACCA_TRY(const Value scale, value("scale", 1, graph_.type(x).dtype));
  ATTACCA_TRY(const std::optional<Value> zero_point, optional_value("zero_point", 2, dtype));
  ATTACCA_TRY_VOID(finish());
  return placed(ir::quantize(graph_, x, scale, zero_point, dtype));
}

Result<std::vector<Value>> Lowering::dequantize() {
  ATTACCA_TRY(const Value q, value("q", 0));
  ATTACCA_TRY(const Value scale, value("scale", 1));
  ATTACCA_TRY(const std::optional<Value> zero_point,
              optional_value("zero_point", 2, graph_.type(q).dtype));
  ATTACCA_TRY_VOID(finish());
  return placed(ir::dequantize(graph_, q, scale, zero_point));
}

}  // namespace

Status check_fits(const SourceText& source, size_t offset, const Number& number, DType dtype) {
  if (is_float(dtype)) return {};
  if (!number.exact)
    return source.fail(offset, "the integer is too large to be held exactly",
                       "write constant(s64[], [...])");
  const bool integral =
      number.value == std::trunc(number.value) && std::fabs(number.value) < 0x1p63;
  const auto integer = integral ? static_cast<int64_t>(number.value) : 0;
  if (integral && to_integer(dtype, integer, Overflow::Ieee) == integer) return {};
  return source.fail(offset, fmt::format("{} is no value of {}", number.value, name(dtype)),
                     fmt::format("cast the operand, or write constant({}, f32)", number.value));
}

Result<Value> materialise(Graph& graph, const SourceText& source, const Operand& operand,
                          std::optional<DType> peer) {
  if (operand.value()) return *operand.value();
  const DType dtype = number_dtype(operand.number()->kind, peer);
  ATTACCA_TRY_VOID(check_fits(source, operand.offset, *operand.number(), dtype));
  return graph.literal(operand.number()->value, dtype);
}

Result<Value> add_node(Graph& graph, const SourceText& source, size_t offset, Op op,
                       const std::vector<Operand>& operands, Attrs attrs) {
  std::vector<Value> values;
  for (size_t i = 0; i < operands.size(); ++i) {
    if (operands[i].value()) {
      values.push_back(*operands[i].value());
      continue;
    }
    std::optional<DType> peer;
    const OperandRange range = adapting_operands(op, i, operands.size());
    for (size_t j = range.first; j < range.last && !peer; ++j)
      if (operands[j].value()) peer = graph.type(*operands[j].value()).dtype;
    const Number& number = *operands[i].number();
    const DType dtype = number_dtype(op, i, number.kind, peer);
    ATTACCA_TRY_VOID(check_fits(source, operands[i].offset, number, dtype));
    values.push_back(graph.literal(number.value, dtype));
  }
  auto value = graph.add(op, std::move(values), std::move(attrs));
  if (!value) return source.place(offset, std::move(value).error());
  return *value;
}

Result<std::vector<Value>> lower_call(Graph& graph, const SourceText& source, const Call& call) {
  return Lowering(graph, source, call).run();
}

bool is_op_name(std::string_view name) {
  return parse_op(name) || std::find(std::begin(kCompositionNames), std::end(kCompositionNames),
                                     name) != std::end(kCompositionNames);
}

std::string suggest_op(std::string_view name) {
  for (const Alias& alias : kAliases)
    if (alias.foreign == name) return fmt::format("did you mean {}?", alias.own);
  std::vector<std::string_view> names(std::begin(kCompositionNames), std::end(kCompositionNames));
  for (const OpInfo& info : all_ops()) names.push_back(info.name);
  const std::string_view best = nearest(name, names);
  return best.empty() ? "see the ops in docs/text-format.md"
                      : fmt::format("did you mean {}?", best);
}

}  // namespace attacca::ir
