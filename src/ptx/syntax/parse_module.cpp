#include "ptx/syntax/parser.hpp"

namespace attacca::ptx {
namespace {

bool is_function_word(const Token& token) {
  return token.is_directive(".func") || token.is_directive(".entry");
}

// Linkage is one directive before .func, .entry or a state space.
bool starts_function(const Cursor& cursor) {
  return is_function_word(cursor.peek(is_linkage(cursor.peek()) ? 1 : 0));
}

bool starts_declaration(const Cursor& cursor) {
  return is_linkage(cursor.peek()) || is_state_space(cursor.peek());
}

Status skip_attribute(Cursor& cursor) {
  if (!cursor.peek().is_directive(".attribute")) return {};
  cursor.take();
  ATTACCA_TRY_VOID(cursor.expect('(', "after .attribute"));
  ATTACCA_TRY_VOID(cursor.skip_to(")", "the attribute"));
  return cursor.expect(')', "after the attribute");
}

// .maxntid 128, 1, 1 .minnctapersm 2 .pragma "..."; .noreturn: all up to the body or the end.
Result<Span> parse_attributes(Cursor& cursor) {
  const uint32_t begin = cursor.position();
  while (!cursor.peek().is('{') && !cursor.peek().is(';')) {
    const bool is_pragma = cursor.peek().is_directive(".pragma");
    if (is_pragma) {
      ATTACCA_TRY_VOID(cursor.skip_to(";", "the pragma"));
      cursor.take();
      continue;
    }
    const TokenKind kind = cursor.peek().kind;
    if (kind == TokenKind::End || kind == TokenKind::Word)
      return cursor.unexpected("a function's body or ';'");
    if (kind == TokenKind::Symbol && !cursor.peek().is(','))
      return cursor.unexpected("a function's body or ';'");
    cursor.take();
  }
  return cursor.since(begin);
}

Result<Function> parse_function(Cursor& cursor) {
  const uint32_t begin = cursor.position();
  Function function;
  if (is_linkage(cursor.peek())) function.linkage = cursor.take().text();
  function.is_entry = cursor.take().text() == ".entry";
  ATTACCA_TRY_VOID(skip_attribute(cursor));
  if (cursor.peek().is('(')) {
    ATTACCA_TRY(function.results, parse_parameters(cursor));
  }
  ATTACCA_TRY(function.name, cursor.expect_word("a function's name"));
  if (cursor.peek().is('(')) {
    ATTACCA_TRY(function.parameters, parse_parameters(cursor));
  }
  ATTACCA_TRY(function.attributes, parse_attributes(cursor));
  if (cursor.peek().is('{')) {
    ATTACCA_TRY(function.body, parse_scope(cursor, 0));
  } else {
    cursor.take();
  }
  function.span = cursor.since(begin);
  return function;
}

template <class Node>
Result<Item> as_item(Result<Node> node) {
  if (!node) return tl::make_unexpected(std::move(node).error());
  return Item(*std::move(node));
}

Result<Item> parse_item(Cursor& cursor) {
  if (starts_function(cursor)) return as_item(parse_function(cursor));
  if (starts_declaration(cursor)) return as_item(parse_declaration(cursor));
  if (cursor.peek().kind == TokenKind::Directive || cursor.peek().is(';'))
    return as_item(parse_directive(cursor));
  return cursor.unexpected("a directive, a variable or a function");
}

// A module begins with its version and target.
Status check_header(const Module& module) {
  for (const std::string_view name : {".version", ".target"})
    if (!module.find_directive(name))
      return fail("the PTX has no " + std::string(name), module.source.where(0),
                  "give the whole module, from its first line");
  return {};
}

}  // namespace

Result<Module> parse(std::string text, std::string name) {
  Module module{Source(std::move(text), std::move(name)), {}, {}};
  ATTACCA_TRY(module.tokens, tokenize(module.source));
  Cursor cursor(module.source, module.tokens);
  while (!cursor.at_end()) {
    ATTACCA_TRY(Item item, parse_item(cursor));
    module.items.push_back(std::move(item));
  }
  ATTACCA_TRY_VOID(check_header(module));
  return module;
}

const Directive* Module::find_directive(std::string_view name) const {
  for (const Item& item : items)
    if (const auto* directive = std::get_if<Directive>(&item))
      if (directive->name == name) return directive;
  return nullptr;
}

}  // namespace attacca::ptx
