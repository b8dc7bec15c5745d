#include "epilogue/text.hpp"

#include <algorithm>

#include "fmt/format.h"

#include "ir/text/lexer.hpp"
#include "ir/text/rules.hpp"
#include "ir/text/text.hpp"
#include "support/check.hpp"

namespace attacca::epilogue {
namespace {

using ir::Dim;
using ir::DType;
using ir::Op;
using ir::Token;
using ir::TokenKind;
using ir::Value;

constexpr std::string_view kSource = "<epilogue>";

const Dim &kRows = *new Dim(Dim::symbol("M")), &kColumns = *new Dim(Dim::symbol("N"));

ir::Shape shape_of(Role role) {
  switch (role) {
    case Role::Accumulator:
    case Role::Full:
      return {kRows, kColumns};
    case Role::Row:
      return {kColumns};
    case Role::Column:
      return {kRows, 1};
    case Role::Scalar:
      return {};
  }
  return {};
}

std::vector<Dim> strides_of(Role role) {
  switch (role) {
    case Role::Accumulator:
    case Role::Full:
      return {kColumns, 1};
    case Role::Row:
      return {0, 1};
    case Role::Column:
      return {1, 0};
    case Role::Scalar:
      return {0, 0};
  }
  return {};
}

std::optional<Role> parse_role(std::string_view word) {
  for (const Role role : {Role::Row, Role::Column, Role::Full, Role::Scalar})
    if (name(role) == word) return role;
  return std::nullopt;
}

// "acc", "acc0", "acc1", or the only value's own name: the accumulator's number.
std::optional<int> parse_accumulator(std::string_view word, std::string_view own) {
  if (!own.empty()) return word == own ? std::optional(0) : std::nullopt;
  if (word == "acc" || word == "acc0") return 0;
  if (word == "acc1") return 1;
  return std::nullopt;
}

struct Operand {
  std::string name;
  Role role = Role::Full;
  DType dtype = DType::F32;
  size_t offset = 0;
};

// Finds the operands, and replaces their roles by blanks, so that the rest is an expression of the
// text form with every character at its position.
class OperandReader {
 public:
  OperandReader(std::string_view text, DType product, DType operand, std::string_view value)
      : source_{text, kSource}, plain_(text), product_(product), operand_(operand), value_(value) {}

  Status read() {
    ATTACCA_TRY(tokens_, ir::tokenize(source_));
    for (size_t i = 0; i + 1 < tokens_.size(); ++i) ATTACCA_TRY_VOID(read_token(i));
    return check_accumulators();
  }

  const std::string& plain() const { return plain_; }
  const std::vector<Operand>& operands() const { return operands_; }

 private:
  Status read_token(size_t& i) {
    const Token& token = tokens_[i];
    if (token.kind != TokenKind::Name) return {};
    const bool called = tokens_[i + 1].is("(");
    if (!called) {
      if (parse_accumulator(token.text, value_))
        return add({std::string(token.text), Role::Accumulator, product_, token.offset});
      return {};
    }
    if (const auto role = parse_role(token.text)) return read_role(i, *role);
    const auto op = ir::parse_op(token.text);
    if (op && *op != Op::Cast && *op != Op::Constant && !ir::is_elementwise(*op))
      return source_.fail(token.offset, fmt::format("{} is no elementwise op", token.text),
                          "an epilogue sees one element at a time");
    return {};
  }

  // role '(' NAME [':' dtype] ')'
  Status read_role(size_t& i, Role role) {
    const Token word = tokens_[i], name = tokens_[i + 2 < tokens_.size() ? i + 2 : i + 1];
    const std::string example = fmt::format("write {0}(x), or {0}(x: f32)", word.text);
    if ((name.kind != TokenKind::Name && name.kind != TokenKind::Quoted) ||
        (name.kind == TokenKind::Name && ir::parse_dtype(name.text)))
      return source_.fail(name.offset,
                          fmt::format("expected an operand's name, got {}", ir::describe(name)),
                          example);
    if (name.kind == TokenKind::Name && ir::is_reserved(name.text))
      return source_.fail(name.offset, fmt::format("{} is reserved", name.text),
                          fmt::format("use another name, or quote it: \"{}\"", name.text));
    size_t at = i + 3;
    DType dtype = operand_;
    bool typed = false;
    if (tokens_[at].is(":")) {
      const Token& type = tokens_[at + 1];
      const auto parsed = ir::parse_dtype(type.text);
      if (!parsed)
        return source_.fail(type.offset, fmt::format("{} is no dtype", ir::describe(type)),
                            fmt::format("one of {}", ir::all_dtype_names()));
      dtype = *parsed;
      typed = true;
      at += 2;
    }
    if (!tokens_[at].is(")"))
      return source_.fail(tokens_[at].offset,
                          fmt::format("expected ')', got {}", ir::describe(tokens_[at])), example);
    // Blanks would join the name to what stands beside the operand.
    const Token& next = tokens_[at + 1];
    if (next.is("(") || next.is("="))
      return source_.fail(next.offset, fmt::format("'{}' after an operand", next.text),
                          "write an operator between them");
    if (i > 0 && tokens_[i - 1].kind == TokenKind::Name)
      return source_.fail(word.offset,
                          fmt::format("{} before an operand", ir::describe(tokens_[i - 1])),
                          "write an operator between them, or brackets");
    blank(word.offset, name.offset);
    blank(name.offset + name.text.size(), tokens_[at].offset + 1);
    i = at;
    return add({ir::decode_name(name), role, dtype, name.offset}, typed);
  }

  void blank(size_t begin, size_t end) {
    std::fill(plain_.begin() + static_cast<ptrdiff_t>(begin),
              plain_.begin() + static_cast<ptrdiff_t>(end), ' ');
  }

  Status add(Operand operand, bool typed = true) {
    const auto known = std::find_if(operands_.begin(), operands_.end(),
                                    [&](const Operand& o) { return o.name == operand.name; });
    if (known == operands_.end()) {
      if (operand.role != Role::Accumulator && parse_accumulator(operand.name, value_))
        return source_.fail(operand.offset, fmt::format("{} is the accumulator", operand.name),
                            "give the operand another name");
      operands_.push_back(std::move(operand));
      return {};
    }
    if (known->role != operand.role)
      return source_.fail(
          operand.offset,
          fmt::format("{} is {} here and {} at {}", operand.name, name(operand.role),
                      name(known->role), source_.line_and_column(known->offset)),
          "use another name for another operand");
    if (typed && known->dtype != operand.dtype)
      return source_.fail(
          operand.offset,
          fmt::format("{} is {} here and {} at {}", operand.name, ir::name(operand.dtype),
                      ir::name(known->dtype), source_.line_and_column(known->offset)),
          "give the dtype once, at its first use");
    return {};
  }

  Status check_accumulators() const {
    if (!value_.empty()) return {};
    const auto find = [&](std::string_view wanted) {
      return std::find_if(operands_.begin(), operands_.end(),
                          [&](const Operand& o) { return o.name == wanted; });
    };
    const auto acc = find("acc"), acc0 = find("acc0"), acc1 = find("acc1"), end = operands_.end();
    if (acc != end && (acc0 != end || acc1 != end))
      return source_.fail(acc->offset, "acc beside acc0 or acc1",
                          "write acc for one product, acc0 and acc1 for two");
    if (acc1 != end && acc0 == end)
      return source_.fail(acc1->offset, "acc1 without acc0", "write acc for a single product");
    return {};
  }

  ir::SourceText source_;
  std::string plain_;
  DType product_, operand_;
  std::string_view value_;
  std::vector<Token> tokens_;
  std::vector<Operand> operands_;
};

// A graph of elementwise ops over [M, N] as an epilogue.
class Converter {
 public:
  Converter(const std::vector<Operand>& operands, const std::vector<ir::ForeignCall>& calls,
            const TextOptions& options, TextEpilogue& into)
      : operands_(operands),
        calls_(calls),
        options_(options),
        into_(into),
        epilogue_(into.epilogue) {}

  Status run() {
    epilogue_.domain = {kRows, kColumns};
    // acc0 is the first set, even if acc1 is read first.
    std::vector<size_t> order;
    for (size_t i = 0; i < operands_.size(); ++i) order.push_back(i);
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return set(a) < set(b); });
    refs_.assign(into_.graph.size(), -1);
    for (const size_t i : order) add_input(i);
    for (uint32_t id = 0; id < into_.graph.size(); ++id) ATTACCA_TRY_VOID(add_node(Value{id}));
    for (size_t i = 0; i < into_.graph.outputs().size(); ++i) ATTACCA_TRY_VOID(add_output(i));
    return {};
  }

 private:
  int set(size_t i) const {
    const Operand& operand = operands_[i];
    return operand.role == Role::Accumulator ? *parse_accumulator(operand.name, options_.value) : 2;
  }

  void add_input(size_t i) {
    const Operand& operand = operands_[i];
    Input input;
    input.role = operand.role;
    input.dtype = operand.dtype;
    input.source = into_.graph.inputs()[i];
    if (operand.role == Role::Accumulator) {
      input.dtype = options_.accumulator;
      input.rounded = operand.dtype;
      input.gemm = set(i);
    } else {
      input.access.strides = strides_of(operand.role);
    }
    refs_[input.source.id] = static_cast<int>(epilogue_.inputs.size());
    epilogue_.inputs.push_back(std::move(input));
    into_.names.push_back(operand.name);
  }

  Status add_node(Value value) {
    const ir::Node& node = into_.graph[value];
    if (node.op == Op::Input) {
      add_call(value);
      return {};
    }
    if (node.op != Op::Cast && node.op != Op::Constant && !ir::is_elementwise(node.op))
      return fail(fmt::format("{} is no elementwise op", name(node.op)), std::string(kSource),
                  "an epilogue sees one element at a time");
    Node step{node.op, {}, node.params(), 0, node.type.dtype, node.compute(), node.saturates()};
    if (node.op == Op::Constant) {
      if (!node.literal && node.tensor->size() != 1)
        return fail("a constant of several elements", std::string(kSource),
                    "make it an operand: row(NAME), col(NAME) or full(NAME)");
      step.literal = node.literal ? node.literal->value : node.tensor->number_at(0);
    }
    for (const Value operand : node.operands) step.operands.push_back(refs_[operand.id]);
    refs_[value.id] = push(std::move(step));
    return {};
  }

  void add_call(Value value) {
    for (const ir::ForeignCall& call : calls_) {
      if (call.result != value) continue;
      Node step;
      step.op = Op::Input;
      step.function = call.function;
      for (const Value operand : call.operands) step.operands.push_back(refs_[operand.id]);
      refs_[value.id] = push(std::move(step));
    }
  }

  int push(Node node) {
    epilogue_.nodes.push_back(std::move(node));
    return static_cast<int>(epilogue_.inputs.size() + epilogue_.nodes.size()) - 1;
  }

  Status add_output(size_t i) {
    const ir::Output& result = into_.graph.outputs()[i];
    const ir::Type& type = into_.graph.type(result.value);
    if (type.shape != epilogue_.domain)
      return fail(fmt::format("result {} has one value a {}, not an element", i + 1,
                              type.shape.empty() ? "kernel" : "row or column"),
                  std::string(kSource), "combine it with acc or a full(...) operand");
    Output output;
    output.value = refs_[result.value.id];
    output.dtype = type.dtype;
    output.access.strides = strides_of(Role::Full);
    output.result = result.value;
    if (!options_.results.empty()) {
      const DType wanted = options_.results[std::min(i, options_.results.size() - 1)];
      if (wanted != type.dtype) {
        if (!ir::is_float(wanted) || !ir::is_float(type.dtype))
          return fail(
              fmt::format("result {} is {}, wanted {}", i + 1, name(type.dtype), name(wanted)),
              std::string(kSource),
              fmt::format("say how: cast(x, {0}) or cast(x, {0}, saturate=true)", name(wanted)));
        output.value = push({Op::Cast, {output.value}, {}, 0, wanted, {}, false});
        output.dtype = wanted;
      }
    }
    epilogue_.outputs.push_back(std::move(output));
    return {};
  }

  const std::vector<Operand>& operands_;
  const std::vector<ir::ForeignCall>& calls_;
  const TextOptions& options_;
  TextEpilogue& into_;
  Epilogue& epilogue_;
  std::vector<int> refs_;
};

DType product_dtype(const TextOptions& options) {
  if (options.product) return *options.product;
  if (!ir::is_float(options.accumulator)) return options.accumulator;
  const bool known = !options.results.empty() && ir::is_float(options.results[0]) &&
                     !ir::is_fp8(options.results[0]);
  return known ? options.results[0] : DType::F32;
}

}  // namespace

Result<TextEpilogue> parse_text(std::string_view text, const TextOptions& options) {
  const DType product = product_dtype(options);
  const DType operand = options.operand.value_or(ir::is_float(product) ? product : DType::F32);
  OperandReader reader(text, product, operand, options.value);
  ATTACCA_TRY_VOID(reader.read());
  std::vector<ir::NamedType> inputs;
  for (const Operand& each : reader.operands())
    inputs.push_back({each.name, {each.dtype, shape_of(each.role)}});
  TextEpilogue result;
  ir::ForeignCalls calls{options.functions, {}};
  ATTACCA_TRY(result.graph, ir::parse_results(reader.plain(), inputs, calls, kSource));
  ATTACCA_TRY_VOID(Converter(reader.operands(), calls.made, options, result).run());
  const Status valid = verify(result.epilogue);
  ATTACCA_CHECK(valid.has_value(), "the text form built a bad epilogue");
  return result;
}

}  // namespace attacca::epilogue
