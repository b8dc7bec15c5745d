// Expressions of the text form: precedence climbing over the infix operators, calls, slices.
#include <cmath>

#include "fmt/format.h"

#include "ir/text/parser.hpp"

namespace attacca::ir {
namespace {

// Counts nesting for as long as it lives.
class Nested {
 public:
  explicit Nested(int& depth) : depth_(++depth) {}
  ~Nested() { --depth_; }
  Nested(const Nested&) = delete;
  Nested& operator=(const Nested&) = delete;
  bool too_deep() const { return depth_ > kMaxNesting; }

 private:
  int& depth_;
};

}  // namespace

Result<Operand> Parser::expression() {
  Operand operand;
  if (!expression(operand)) return tl::make_unexpected(std::move(failure_));
  return operand;
}

// expression := unary {infix unary}; all infix operators associate to the left, comparisons not.
bool Parser::expression(Operand& left, Precedence least) {
  const Nested nested(nesting_);
  if (nested.too_deep())
    return apart([&] { return too_deep("give parts of the expression a name"); });
  if (!unary(left)) return false;
  for (;;) {
    const Token& token = peek();
    const Infix* infix = token.kind == TokenKind::Symbol ? find_infix(token.text) : nullptr;
    if (infix == nullptr || infix->precedence < least) return true;
    take();
    Operand right;
    if (!expression(right, tighter(infix->precedence))) return false;
    if (!apart([&] { return combine(token, *infix, left, right); })) return false;
  }
}

Status Parser::too_deep(std::string fix) const {
  return source_.fail(peek().offset, fmt::format("nested deeper than {}", kMaxNesting),
                      std::move(fix));
}

Status Parser::combine(const Token& token, const Infix& infix, Operand& left,
                       const Operand& right) {
  ATTACCA_TRY(const Value value, add_node(graph_, source_, token.offset, infix.op, {left, right}));
  left = Operand{value, token.offset};
  const Infix* next = peek().kind == TokenKind::Symbol ? find_infix(peek().text) : nullptr;
  if (infix.precedence == Precedence::Comparison && next != nullptr)
    return source_.fail(peek().offset, "comparisons do not chain",
                        "write and(a < b, b < c), or parentheses");
  return {};
}

// unary := '-' unary | postfix
bool Parser::unary(Operand& into) {
  const Token& token = peek();
  if (!token.is("-")) return postfix(into);
  const Nested nested(nesting_);
  if (nested.too_deep()) return apart([&] { return too_deep("remove signs"); });
  take();
  return unary(into) && apart([&] { return negate(token, into); });
}

Status Parser::negate(const Token& token, Operand& operand) {
  if (const Number* number = operand.number(); number && number->kind != NumberKind::Boolean) {
    operand = Operand{Number{-number->value, number->kind, number->exact}, token.offset};
    return {};
  }
  ATTACCA_TRY(const Value value, add_node(graph_, source_, token.offset, Op::Neg, {operand}));
  operand = Operand{value, token.offset};
  return {};
}

// postfix := primary {'[' ranges ']'}
bool Parser::postfix(Operand& into) {
  if (!primary(into)) return false;
  while (peek().is("[") && !peek().starts_line)
    if (!apart([&] { return slice(into); })) return false;
  return true;
}

// primary := number | name | call | '(' expression ')'
bool Parser::primary(Operand& into) {
  const Token& token = peek();
  if (token.is("(")) return parenthesised(into);
  const bool word = token.kind == TokenKind::Name && !token.is_word("inf") &&
                    !token.is_word("nan") && !token.is_word("true") && !token.is_word("false");
  if (word && peek(1).is("(") && !peek(1).starts_line) return value_call(into);
  return apart([&] { return leaf(into); });
}

bool Parser::parenthesised(Operand& into) {
  const Token& open = take();
  return expression(into) && apart([&] { return close(")", open); });
}

Status Parser::leaf(Operand& into) {
  const Token& token = peek();
  if (token.kind == TokenKind::Number || token.is_word("inf") || token.is_word("nan"))
    return number(into);
  if (token.kind == TokenKind::Quoted) return named(into);
  if (token.kind != TokenKind::Name) return unexpected("an expression");
  if (token.text == "true" || token.text == "false") {
    take();
    into = {Number{token.text == "true" ? 1.0 : 0.0, NumberKind::Boolean, true}, token.offset};
    return {};
  }
  if (is_reserved(token.text))
    return source_.fail(token.offset, fmt::format("unexpected {}", token.text),
                        "an expression stands here");
  return named(into);
}

Status Parser::number(Operand& into) {
  const Token& token = take();
  ATTACCA_TRY(const Number number, parse_number(source_, token));
  into = {number, token.offset};
  return {};
}

Status Parser::named(Operand& into) {
  const Token& token = take();
  const std::string name = decode_name(token);
  if (const auto found = names_.find(name); found != names_.end()) {
    into = {found->second.value, token.offset};
    return {};
  }
  if (free_type_ == nullptr) return undefined(token);
  auto value = graph_.input(name, *free_type_);
  if (!value) return source_.place(token.offset, std::move(value).error());
  names_.emplace(name, Definition{*value, token.offset});
  into = {*value, token.offset};
  return {};
}

tl::unexpected<Error> Parser::undefined(const Token& name) const {
  const std::string what = fmt::format("{} is not defined", describe(name));
  if (is_call_name(name.text))
    return source_.fail(name.offset, what, fmt::format("to call the op, write {}(...)", name.text));
  std::vector<std::string_view> known;
  constexpr size_t kEnough = 10000;
  for (const auto& [text, definition] : names_)
    if (known.size() < kEnough) known.push_back(text);
  std::sort(known.begin(), known.end());
  const std::string_view best = nearest(decode_name(name), known);
  return source_.fail(name.offset, what,
                      best.empty() ? "define it above, or make it an input"
                                   : fmt::format("did you mean {}?", encode_name(best)));
}

// ranges := [range {',' range}]; '...' stands for as many whole axes as are missing.
Status Parser::slice(Operand& operand) {
  const Token& open = take();
  ATTACCA_TRY(const Value value, materialise(graph_, source_, operand));
  const size_t rank = graph_.type(value).shape.size();
  std::vector<PythonSlice> ranges;
  std::optional<size_t> ellipsis;
  while (!peek().is("]")) {
    if (peek().is("...") && !ellipsis) {
      take();
      ellipsis = ranges.size();
    } else {
      ATTACCA_TRY(PythonSlice range, slice_range());
      ranges.push_back(std::move(range));
    }
    if (!accept(",")) break;
  }
  ATTACCA_TRY_VOID(close("]", open));
  if (ellipsis && ranges.size() < rank)
    ranges.insert(ranges.begin() + static_cast<ptrdiff_t>(*ellipsis), rank - ranges.size(), {});
  auto result = ir::slice(graph_, value, ranges);
  if (!result) return source_.place(open.offset, std::move(result).error());
  operand = {*result, open.offset};
  return {};
}

// range := [dim] ':' [dim] [':' [dim]]
Result<PythonSlice> Parser::slice_range() {
  PythonSlice range;
  const auto at_end = [&] { return peek().is(":") || peek().is(",") || peek().is("]"); };
  if (!at_end()) {
    ATTACCA_TRY(range.begin, known_dim());
    if (!peek().is(":"))
      return unexpected("':'", "to take one element of an axis, write x[i:i + 1]");
  }
  ATTACCA_TRY_VOID(expect(":"));
  if (!at_end()) {
    ATTACCA_TRY(range.end, known_dim());
  }
  if (accept(":") && !at_end()) {
    const size_t offset = peek().offset;
    ATTACCA_TRY(const Dim step, dim());
    if (!step.is_static() || step.is(0))
      return source_.fail(offset, "the step of a slice is an integer other than 0",
                          "write e.g. x[::2]");
    range.step = step.value();
  }
  return range;
}

// A call where one value stands.
bool Parser::value_call(Operand& into) {
  const Token& name = peek();
  if (name.text == "constant") return constant(into);
  if (name.text == "kernel") return kernel(into);
  if (const ForeignFunction* function = foreign(name.text)) return foreign_call(*function, into);
  Call call{name.text, name.offset, {}};
  return arguments(call) && apart([&] { return one_result(call, into); });
}

Result<std::vector<Value>> Parser::lower(const Call& call) {
  ATTACCA_TRY(std::vector<Value> results, lower_call(graph_, source_, call));
  for (const Argument& argument : call.arguments)
    if (const auto* sizes = std::get_if<std::vector<Dim>>(&argument.of))
      ATTACCA_TRY_VOID(check_symbols(argument.offset, *sizes));
  return results;
}

Status Parser::one_result(const Call& call, Operand& into) {
  ATTACCA_TRY(const std::vector<Value> results, lower(call));
  if (results.size() != 1)
    return source_.fail(call.offset,
                        fmt::format("{} has {} results here", call.name, results.size()),
                        "name them: a, b = split(x, 2)");
  into = {results[0], call.offset};
  return {};
}

const ForeignFunction* Parser::foreign(std::string_view name) const {
  if (foreign_ == nullptr || is_call_name(name)) return nullptr;
  for (const ForeignFunction& function : foreign_->known)
    if (function.name == name) return &function;
  return nullptr;
}

// function '(' expression {',' expression} ')', over floats
bool Parser::foreign_call(const ForeignFunction& function, Operand& into) {
  const Token& name = take();
  const Token& open = take();
  ForeignCall call{function.name, {}, {}};
  Shape shape;
  do {
    const Token& at = peek();
    Operand operand;
    if (!expression(operand)) return false;
    if (!apart([&] { return add_operand(name, at, operand, call, shape); })) return false;
  } while (accept(","));
  return apart([&] { return close(")", open); }) &&
         apart([&] { return finish(name, function, call, shape, into); });
}

Status Parser::add_operand(const Token& name, const Token& at, const Operand& operand,
                           ForeignCall& call, Shape& shape) {
  ATTACCA_TRY(const Value value, materialise(graph_, source_, operand));
  const auto joined = broadcast(shape, graph_.type(value).shape);
  if (!is_float(graph_.type(value).dtype) || !joined)
    return source_.fail(at.offset,
                        fmt::format("{} takes floats of one shape, got {}", name.text,
                                    to_string(graph_.type(value))),
                        "cast the operand, e.g. cast(x, f32)");
  shape = *joined;
  call.operands.push_back(value);
  return {};
}

Status Parser::finish(const Token& name, const ForeignFunction& function, ForeignCall& call,
                      Shape& shape, Operand& into) {
  if (call.operands.size() != function.arity)
    return source_.fail(name.offset, fmt::format("{} takes {} operands, got {}", name.text,
                                                 function.arity, call.operands.size()));
  const std::string label = fmt::format("{}(...) {}", name.text, foreign_->made.size());
  auto value = graph_.input(label, {DType::F32, std::move(shape)});
  if (!value) return source_.place(name.offset, std::move(value).error());
  call.result = *value;
  foreign_->made.push_back(std::move(call));
  into = {*value, name.offset};
  return {};
}

Result<std::vector<Value>> Parser::call() {
  const Token& name = peek();
  Call call{name.text, name.offset, {}};
  if (!arguments(call)) return tl::make_unexpected(std::move(failure_));
  return lower(call);
}

// call := op '(' [argument {',' argument}] ')'
bool Parser::arguments(Call& call) {
  const Token& name = take();
  if (!is_call_name(name.text)) return apart([&] { return unknown_op(name); });
  const Token& open = take();
  while (!peek().is(")")) {
    call.arguments.emplace_back();
    if (!argument(call)) return false;
    if (!accept(",")) break;
  }
  return apart([&] { return close(")", open); });
}

Status Parser::unknown_op(const Token& name) const {
  return source_.fail(name.offset, fmt::format("unknown op {}", describe(name)),
                      suggest_call(name.text));
}

// argument := [keyword '='] ('[' dims ']' | dtype | expression); the call's last is filled.
bool Parser::argument(Call& call) {
  Argument& into = call.arguments.back();
  into.offset = peek().offset;
  if (peek().kind == TokenKind::Name && peek(1).is("=")) {
    into.keyword = take().text;
    take();
  }
  const Token& token = peek();
  if (token.is("[")) {
    if (!apart([&] { return list(into); })) return false;
  } else if (token.kind == TokenKind::Name && parse_dtype(token.text)) {
    into.of = *parse_dtype(take().text);
  } else if (!expression(into.of.emplace<Operand>())) {
    return false;
  }
  return apart([&] { return check_order(call); });
}

Status Parser::list(Argument& into) {
  const Token& open = take();
  ATTACCA_TRY(into.of, dims("]"));
  return close("]", open);
}

Status Parser::check_order(const Call& call) const {
  const size_t count = call.arguments.size();
  if (count < 2 || !call.arguments[count - 1].keyword.empty() ||
      call.arguments[count - 2].keyword.empty())
    return {};
  return source_.fail(call.arguments[count - 1].offset, "a positional argument after a keyword",
                      "put keywords last");
}

}  // namespace attacca::ir
