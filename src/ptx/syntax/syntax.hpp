// The syntax tree of a PTX module. Nodes point into the text and cover runs of tokens; together
// they cover every token, so printing the tree gives the text back byte for byte.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "ptx/syntax/token.hpp"
#include "support/error.hpp"

namespace attacca::ptx {

struct Span {  // tokens [begin, end)
  uint32_t begin = 0;
  uint32_t end = 0;
};

// ---- Operands

struct Operand;

struct Name {  // a register, special register, label, symbol or the sink '_'
  std::string_view text;
};
struct Immediate {  // 12, -1, 0x1F, 0f3F800000
  std::string_view text;
};
struct Address {          // [%rd1+16], [symbol], [16], [descriptor, {%r1, %r2}]
  std::string_view base;  // empty: absolute
  int64_t offset = 0;
  std::vector<Operand> coordinates;  // what follows the base after a comma
};
struct Tuple {  // {%f1, %f2}, and the ( ) lists of a call
  std::vector<Operand> elements;
};
struct Expression {};  // any other form, by its span alone: %p1|%p2, !%p1, symbol+4

struct Operand {
  Span span;
  std::variant<Name, Immediate, Address, Tuple, Expression> form;
};

// ---- Statements

struct Variable {               // a register, parameter or variable
  std::string_view space;       // ".reg", ".param", ".local", ".shared", ".global", ".const", ...
  std::string_view type;        // ".b32", ".pred", ...
  uint32_t vector = 1;          // 2, 4 or 8 for .v2, .v4, .v8
  uint32_t alignment = 0;       // bytes; 0: the type's own
  bool is_pointer = false;      // .ptr
  std::string_view pointer_to;  // ".global", ".shared", ...; may be empty
  std::string_view name;
  std::optional<uint32_t> range;              // %r<12> declares %r0 to %r11
  std::vector<std::optional<uint64_t>> dims;  // [16][2]; nullopt for []
  Span initializer;                           // after '='; may be empty
};

struct Declaration {  // .reg .b32 %r<4>;  .shared .align 16 .b8 a[16], b[4];
  Span span;
  std::string_view linkage;  // ".extern", ".visible", ".weak", ".common" or empty
  std::vector<Variable> variables;
};

struct Label {
  Span span;
  std::string_view name;
};

struct Predicate {  // @%p1, @!%p1
  bool negated = false;
  std::string_view name;
};

struct Instruction {
  Span span;
  std::optional<Predicate> predicate;
  std::string_view opcode;  // with its modifiers: "ld.global.v4.b32"
  std::vector<Operand> operands;
};

struct Directive {  // .loc, .file, .pragma, .section, .branchtargets, .version, ...
  Span span;
  std::string_view name;  // ".loc"; empty for a lone ';'
};

struct Statement;
struct Scope {  // { ... }
  Span span;
  std::vector<Statement> statements;
};

struct Statement {
  std::variant<Declaration, Label, Instruction, Directive, Scope> node;
};

// ---- The module

struct Function {
  Span span;
  std::string_view linkage;  // as in Declaration
  bool is_entry = false;
  std::vector<Variable> results;
  std::string_view name;
  std::vector<Variable> parameters;
  Span attributes;            // .maxntid 128, 1, 1 .pragma "..." .noreturn ...; may be empty
  std::optional<Scope> body;  // a declaration has none
};

using Item = std::variant<Directive, Declaration, Function>;

struct Module {
  Source source;
  std::vector<Token> tokens;  // an End token last
  std::vector<Item> items;

  // The first module directive of this name, such as ".version", or null.
  const Directive* find_directive(std::string_view name) const;
  // The text of a run of tokens, without the blanks and comments before it.
  std::string_view text(Span span) const;
  std::string where(Span span) const { return source.where(tokens[span.begin].text()); }
};

// The span of whatever node it is.
template <class... Nodes>
Span span_of(const std::variant<Nodes...>& node) {
  return std::visit([](const auto& n) { return n.span; }, node);
}

// An opcode's parts: "ld.param.v2.f32" -> ld, param, v2, f32.
std::vector<std::string_view> opcode_parts(std::string_view opcode);

// The element size of a type such as ".b32"; 0 for those without one (.pred, .texref).
uint32_t type_bits(std::string_view type);
// Bytes of a parameter or variable; nullopt where a dimension is open or the size is absurd.
std::optional<uint64_t> size_in_bytes(const Variable& variable);

// Limits for files.
constexpr int kMaxDepth = 64;  // nested { }, ( ) and [ ]

Result<Module> parse(std::string text, std::string name = "<ptx>");
std::string print(const Module& module);

}  // namespace attacca::ptx
