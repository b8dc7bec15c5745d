#include "fmt/format.h"

#include "ir/text/parser.hpp"
#include "ir/text/text.hpp"
#include "support/check.hpp"

namespace attacca::ir {

bool Parser::accept(std::string_view symbol) {
  if (!peek().is(symbol)) return false;
  take();
  return true;
}

Status Parser::expect(std::string_view symbol) {
  if (accept(symbol)) return {};
  return unexpected(fmt::format("'{}'", symbol));
}

Status Parser::close(std::string_view symbol, const Token& open) {
  if (accept(symbol)) return {};
  return unexpected(
      fmt::format("'{}'", symbol),
      fmt::format("close the '{}' opened at {}", open.text, source_.line_and_column(open.offset)));
}

tl::unexpected<Error> Parser::unexpected(std::string_view wanted, std::string fix) const {
  return source_.fail(peek().offset, fmt::format("expected {}, got {}", wanted, describe(peek())),
                      std::move(fix));
}

Result<Token> Parser::name(std::string_view what) {
  const Token& token = peek();
  const bool word = token.kind == TokenKind::Name;
  if (word && is_reserved(token.text))
    return source_.fail(token.offset, fmt::format("{} is reserved", token.text),
                        fmt::format("use another name, or quote it: \"{}\"", token.text));
  if (word || token.kind == TokenKind::Quoted) return take();
  return unexpected(what);
}

// graph := 'graph' name '(' [input {',' input}] ')' '{' {statement} 'return' ... '}'
Result<Graph> Parser::graph() {
  ATTACCA_TRY_VOID(header());
  const Token open = peek();
  ATTACCA_TRY_VOID(expect("{"));
  while (!peek().is_word("return")) {
    if (peek().is("}") || peek().kind == TokenKind::End)
      return unexpected("'return'", "end the graph with return VALUE }");
    ATTACCA_TRY_VOID(statement());
  }
  ATTACCA_TRY_VOID(returns());
  accept(";");
  ATTACCA_TRY_VOID(close("}", open));
  ATTACCA_TRY_VOID(end_of_text());
  return std::move(graph_);
}

Status Parser::header() {
  if (!peek().is_word("graph"))
    return unexpected("'graph'", "begin with graph NAME(x: f32[M, 64]) {");
  take();
  ATTACCA_TRY(const Token name, this->name("the graph's name"));
  graph_.name = decode_name(name);
  const Token open = peek();
  ATTACCA_TRY_VOID(expect("("));
  while (!peek().is(")")) {
    ATTACCA_TRY_VOID(input());
    if (!accept(",")) break;
  }
  ATTACCA_TRY_VOID(close(")", open));
  known_symbols_ = known_symbols(graph_);
  return check_strides();
}

// A stride's symbols are those of shapes, of any input.
Status Parser::check_strides() const {
  for (const Value input : graph_.inputs())
    ATTACCA_TRY_VOID(
        check_symbols(names_.at(graph_[input].name).offset, graph_.type(input).strides));
  return {};
}

// input := name ':' type
Status Parser::input() {
  ATTACCA_TRY(const Token name, this->name("an input's name"));
  ATTACCA_TRY_VOID(expect(":"));
  ATTACCA_TRY(Type type, this->type());
  const std::string text = decode_name(name);
  if (const auto found = names_.find(text); found != names_.end())
    return source_.fail(name.offset, fmt::format("{} is defined twice", text),
                        fmt::format("use another name; the first is at {}",
                                    source_.line_and_column(found->second.offset)));
  auto value = graph_.input(text, std::move(type));
  if (!value) return source_.place(name.offset, std::move(value).error());
  names_.emplace(text, Definition{*value, name.offset});
  return {};
}

// type := dtype '[' [dims] [';' strides] ']'
Result<Type> Parser::type() {
  Type type;
  ATTACCA_TRY(type.dtype, dtype());
  const Token open = peek();
  if (!accept("["))
    return unexpected("'['", fmt::format("write the shape, e.g. {0}[M, 64], or {0}[] for a scalar",
                                         ir::name(type.dtype)));
  ATTACCA_TRY(type.shape, dims(";]"));
  if (accept(";")) {
    ATTACCA_TRY(type.strides, dims("]"));
  }
  ATTACCA_TRY_VOID(close("]", open));
  return type;
}

// statement := name {',' name} '=' expression
Status Parser::statement() {
  std::vector<Token> names;
  do {
    ATTACCA_TRY(Token name, this->name("a statement or 'return'"));
    names.push_back(name);
  } while (accept(","));
  if (!accept("=")) return unexpected("'='", "statements read NAME = EXPRESSION");
  if (names.size() == 1) {
    ATTACCA_TRY(const Operand operand, expression());
    ATTACCA_TRY(const Value value, materialise(graph_, source_, operand));
    ATTACCA_TRY_VOID(define(names[0], value));
    return end_of_statement();
  }
  const Token callee = peek();
  if (!callee.is_word("split") || !peek(1).is("("))
    return unexpected("split(...)", "only split has several results: a, b = split(x, 2)");
  ATTACCA_TRY(const std::vector<Value> values, call());
  if (values.size() != names.size())
    return source_.fail(names[0].offset,
                        fmt::format("{} names for {} parts", names.size(), values.size()),
                        "give every part a name");
  for (size_t i = 0; i < names.size(); ++i) ATTACCA_TRY_VOID(define(names[i], values[i]));
  return end_of_statement();
}

// A second name for a named value is an alias, which the graph does not keep.
Status Parser::define(const Token& name, Value value) {
  std::string text = decode_name(name);
  const auto [slot, fresh] = names_.emplace(text, Definition{value, name.offset});
  if (!fresh)
    return source_.fail(name.offset, fmt::format("{} is defined twice", text),
                        fmt::format("use another name; the first is at {}",
                                    source_.line_and_column(slot->second.offset)));
  if (graph_[value].name.empty())
    ATTACCA_CHECK(graph_.set_name(value, std::move(text)).has_value(), "a fresh name is taken");
  return {};
}

Status Parser::end_of_statement() {
  const Token& next = peek();
  if (accept(";") || next.starts_line || next.is("}") || next.kind == TokenKind::End) return {};
  return unexpected("an operator or the end of the statement",
                    "begin the next statement on a new line or after ';'");
}

// 'return' returned {',' returned}, each under a name of its own.
Status Parser::returns() {
  take();
  std::unordered_map<std::string, size_t> places;
  do {
    const size_t offset = peek().offset;
    ATTACCA_TRY_VOID(returned());
    const std::string& name = graph_.outputs().back().name;
    const auto [first, fresh] = places.emplace(name, offset);
    if (!fresh)
      return source_.fail(offset, fmt::format("output {} comes twice", name),
                          fmt::format("name it NAME = VALUE; the first is at {}",
                                      source_.line_and_column(first->second)));
  } while (accept(","));
  return {};
}

// returned := [name '='] expression; without a name, a bare name is the output's name too.
Status Parser::returned() {
  std::string name;
  const bool word = peek().kind == TokenKind::Name || peek().kind == TokenKind::Quoted;
  if (word && peek(1).is("=")) {
    ATTACCA_TRY(const Token token, this->name("an output's name"));
    name = decode_name(token);
    take();
  } else if (word && !is_reserved(peek().text) &&
             (peek(1).is(",") || peek(1).is("}") || peek(1).is(";"))) {
    name = decode_name(peek());
  }
  ATTACCA_TRY(const Operand operand, expression());
  ATTACCA_TRY(const Value value, materialise(graph_, source_, operand));
  graph_.add_output(value, std::move(name));
  return {};
}

Status Parser::end_of_text() {
  if (peek().kind == TokenKind::End) return {};
  return source_.fail(peek().offset, fmt::format("unexpected {} after the end", describe(peek())),
                      peek().is_word("graph") ? "a text holds one graph" : "remove it");
}

Result<Graph> Parser::bare_expression(const Type& type, const std::vector<std::string>& names) {
  free_type_ = &type;
  for (const std::string& name : names) {
    ATTACCA_TRY(const Value value, graph_.input(name, type));
    names_.emplace(name, Definition{value, 0});
  }
  ATTACCA_TRY(const Operand operand, expression());
  ATTACCA_TRY_VOID(end_of_text());
  ATTACCA_TRY(const Value value, materialise(graph_, source_, operand));
  graph_.add_output(value);
  return std::move(graph_);
}

Result<Graph> Parser::results(const std::vector<NamedType>& inputs, ForeignCalls& calls) {
  foreign_ = &calls;
  for (const NamedType& input : inputs) {
    ATTACCA_TRY(const Value value, graph_.input(input.name, input.type));
    names_.emplace(input.name, Definition{value, 0});
  }
  do ATTACCA_TRY_VOID(returned());
  while (accept(","));
  ATTACCA_TRY_VOID(end_of_text());
  return std::move(graph_);
}

Result<Graph> parse_results(std::string_view text, const std::vector<NamedType>& inputs,
                            std::string_view source) {
  ForeignCalls none;
  return parse_results(text, inputs, none, source);
}

Result<Graph> parse_results(std::string_view text, const std::vector<NamedType>& inputs,
                            ForeignCalls& calls, std::string_view source) {
  const SourceText source_text{text, source};
  ATTACCA_TRY(const std::vector<Token> tokens, tokenize(source_text));
  return Parser(source_text, tokens).results(inputs, calls);
}

Result<Graph> parse_graph(std::string_view text, std::string_view source) {
  const SourceText source_text{text, source};
  ATTACCA_TRY(const std::vector<Token> tokens, tokenize(source_text));
  return Parser(source_text, tokens).graph();
}

// Parses twice: the first pass finds the free names, so that in the second pass all inputs are
// added before other nodes.
Result<Graph> parse_expression(std::string_view text, const Type& type) {
  const SourceText source_text{text, "<expression>"};
  ATTACCA_TRY(const std::vector<Token> tokens, tokenize(source_text));
  ATTACCA_TRY(const Graph found, Parser(source_text, tokens).bare_expression(type, {}));
  std::vector<std::string> names;
  for (const Value input : found.inputs()) names.push_back(found[input].name);
  return Parser(source_text, tokens).bare_expression(type, names);
}

}  // namespace attacca::ir
