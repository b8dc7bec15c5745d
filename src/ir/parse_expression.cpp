// Expressions of the text form: precedence climbing over the infix operators, calls, slices.
#include <cmath>

#include "fmt/format.h"

#include "ir/parser.hpp"

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

Precedence tighter(Precedence precedence) {
  return static_cast<Precedence>(static_cast<int>(precedence) + 1);
}

}  // namespace

// expression := unary {infix unary}; all infix operators associate to the left, comparisons not.
Result<Operand> Parser::expression(Precedence least) {
  const Nested nested(nesting_);
  if (nested.too_deep())
    return source_.fail(peek().offset, fmt::format("nested deeper than {}", kMaxNesting),
                        "give parts of the expression a name");
  ATTACCA_TRY(Operand left, unary());
  for (;;) {
    const Token& token = peek();
    const Infix* infix = token.kind == TokenKind::Symbol ? find_infix(token.text) : nullptr;
    if (infix == nullptr || infix->precedence < least) return left;
    take();
    ATTACCA_TRY(const Operand right, expression(tighter(infix->precedence)));
    ATTACCA_TRY(const Value value,
                add_node(graph_, source_, token.offset, infix->op, {left, right}));
    left = Operand{value, token.offset};
    const Infix* next = peek().kind == TokenKind::Symbol ? find_infix(peek().text) : nullptr;
    if (infix->precedence == Precedence::Comparison && next != nullptr)
      return source_.fail(peek().offset, "comparisons do not chain",
                          "write and(a < b, b < c), or parentheses");
  }
}

// unary := '-' unary | postfix
Result<Operand> Parser::unary() {
  const Token& token = peek();
  if (!accept("-")) return postfix();
  const Nested nested(nesting_);
  if (nested.too_deep())
    return source_.fail(token.offset, fmt::format("nested deeper than {}", kMaxNesting),
                        "remove signs");
  ATTACCA_TRY(const Operand operand, unary());
  if (const Number* number = operand.number(); number && number->kind != NumberKind::Boolean)
    return Operand{Number{-number->value, number->kind, number->exact}, token.offset};
  ATTACCA_TRY(const Value value, add_node(graph_, source_, token.offset, Op::Neg, {operand}));
  return Operand{value, token.offset};
}

// postfix := primary {'[' ranges ']'}
Result<Operand> Parser::postfix() {
  ATTACCA_TRY(Operand operand, primary());
  while (peek().is("[") && !peek().starts_line) {
    ATTACCA_TRY(operand, slice(operand));
  }
  return operand;
}

// primary := number | name | call | '(' expression ')'
Result<Operand> Parser::primary() {
  const Token& token = peek();
  if (token.is("(")) return parenthesised();
  if (token.kind == TokenKind::Number) return number();
  if (token.kind == TokenKind::Quoted) return named();
  if (token.kind != TokenKind::Name) return unexpected("an expression");
  if (token.text == "inf" || token.text == "nan") return number();
  if (token.text == "true" || token.text == "false") {
    take();
    return Operand{Number{token.text == "true" ? 1.0 : 0.0, NumberKind::Boolean, true},
                   token.offset};
  }
  if (peek(1).is("(") && !peek(1).starts_line) return value_call();
  if (is_reserved(token.text))
    return source_.fail(token.offset, fmt::format("unexpected {}", token.text),
                        "an expression stands here");
  return named();
}

Result<Operand> Parser::parenthesised() {
  const Token open = take();
  ATTACCA_TRY(const Operand operand, expression());
  ATTACCA_TRY_VOID(close(")", open));
  return operand;
}

Result<Operand> Parser::number() {
  const Token& token = take();
  ATTACCA_TRY(const Number number, parse_number(source_, token));
  return Operand{number, token.offset};
}

Result<Operand> Parser::named() {
  const Token& token = take();
  const std::string name = decode_name(token);
  if (const auto found = names_.find(name); found != names_.end())
    return Operand{found->second.value, token.offset};
  if (free_type_ == nullptr) return undefined(token);
  auto value = graph_.input(name, *free_type_);
  if (!value) return source_.place(token.offset, std::move(value).error());
  names_.emplace(name, Definition{*value, token.offset});
  return Operand{*value, token.offset};
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
Result<Operand> Parser::slice(const Operand& x) {
  const Token open = take();
  ATTACCA_TRY(const Value value, materialise(graph_, source_, x));
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
  return Operand{*result, open.offset};
}

// range := [dim] ':' [dim] [':' [dim]]
Result<PythonSlice> Parser::slice_range() {
  PythonSlice range;
  const auto at_end = [&] { return peek().is(":") || peek().is(",") || peek().is("]"); };
  if (!at_end()) {
    ATTACCA_TRY(range.begin, dim());
    if (!peek().is(":"))
      return unexpected("':'", "to take one element of an axis, write x[i:i + 1]");
  }
  ATTACCA_TRY_VOID(expect(":"));
  if (!at_end()) {
    ATTACCA_TRY(range.end, dim());
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
Result<Operand> Parser::value_call() {
  const Token name = peek();
  if (name.text == "constant") {
    take();
    ATTACCA_TRY(const Value value, constant());
    return Operand{value, name.offset};
  }
  if (name.text == "kernel") return kernel();
  if (const ForeignFunction* function = foreign(name.text)) return foreign_call(*function);
  ATTACCA_TRY(const std::vector<Value> results, call());
  if (results.size() != 1)
    return source_.fail(name.offset,
                        fmt::format("{} has {} results here", name.text, results.size()),
                        "name them: a, b = split(x, 2)");
  return Operand{results[0], name.offset};
}

const ForeignFunction* Parser::foreign(std::string_view name) const {
  if (foreign_ == nullptr || is_call_name(name)) return nullptr;
  for (const ForeignFunction& function : foreign_->known)
    if (function.name == name) return &function;
  return nullptr;
}

// function '(' expression {',' expression} ')', over floats
Result<Operand> Parser::foreign_call(const ForeignFunction& function) {
  const Token name = take(), open = take();
  ForeignCall call{function.name, {}, {}};
  Shape shape;
  do {
    const Token& at = peek();
    ATTACCA_TRY(const Operand operand, expression());
    ATTACCA_TRY(const Value value, materialise(graph_, source_, operand));
    const auto joined = broadcast(shape, graph_.type(value).shape);
    if (!is_float(graph_.type(value).dtype) || !joined)
      return source_.fail(at.offset,
                          fmt::format("{} takes floats of one shape, got {}", name.text,
                                      to_string(graph_.type(value))),
                          "cast the operand, e.g. cast(x, f32)");
    shape = *joined;
    call.operands.push_back(value);
  } while (accept(","));
  ATTACCA_TRY_VOID(close(")", open));
  if (call.operands.size() != function.arity)
    return source_.fail(name.offset, fmt::format("{} takes {} operands, got {}", name.text,
                                                 function.arity, call.operands.size()));
  const std::string label = fmt::format("{}(...) {}", name.text, foreign_->made.size());
  auto value = graph_.input(label, {DType::F32, std::move(shape)});
  if (!value) return source_.place(name.offset, std::move(value).error());
  call.result = *value;
  foreign_->made.push_back(std::move(call));
  return Operand{*value, name.offset};
}

// call := op '(' [argument {',' argument}] ')'
Result<std::vector<Value>> Parser::call() {
  const Token name = take();
  if (!is_call_name(name.text))
    return source_.fail(name.offset, fmt::format("unknown op {}", describe(name)),
                        suggest_call(name.text));
  const Token open = take();
  Call call{name.text, name.offset, {}};
  while (!peek().is(")")) {
    ATTACCA_TRY(Argument argument, this->argument());
    if (argument.keyword.empty() && !call.arguments.empty() &&
        !call.arguments.back().keyword.empty())
      return source_.fail(argument.offset, "a positional argument after a keyword",
                          "put keywords last");
    call.arguments.push_back(std::move(argument));
    if (!accept(",")) break;
  }
  ATTACCA_TRY_VOID(close(")", open));
  return lower_call(graph_, source_, call);
}

// argument := [keyword '='] ('[' dims ']' | dtype | expression)
Result<Argument> Parser::argument() {
  Argument argument;
  argument.offset = peek().offset;
  if (peek().kind == TokenKind::Name && peek(1).is("=")) {
    argument.keyword = take().text;
    take();
  }
  const Token token = peek();
  if (accept("[")) {
    ATTACCA_TRY(argument.of, dims("]"));
    ATTACCA_TRY_VOID(close("]", token));
  } else if (token.kind == TokenKind::Name && parse_dtype(token.text)) {
    argument.of = *parse_dtype(take().text);
  } else {
    ATTACCA_TRY(argument.of, expression());
  }
  return argument;
}

}  // namespace attacca::ir
