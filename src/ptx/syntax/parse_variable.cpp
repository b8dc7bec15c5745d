#include <algorithm>
#include <array>

#include "ptx/syntax/parser.hpp"

namespace attacca::ptx {
namespace {

constexpr std::array<std::string_view, 4> kLinkages = {".extern", ".visible", ".weak", ".common"};
constexpr std::array<std::string_view, 7> kStateSpaces = {".reg",    ".param", ".local", ".shared",
                                                          ".global", ".const", ".tex"};

struct TypeSize {
  std::string_view type;
  uint32_t bits;
};
constexpr TypeSize kTypes[] = {
    {".b8", 8},     {".u8", 8},         {".s8", 8},      {".b16", 16},    {".u16", 16},
    {".s16", 16},   {".f16", 16},       {".bf16", 16},   {".b32", 32},    {".u32", 32},
    {".s32", 32},   {".f32", 32},       {".f16x2", 32},  {".bf16x2", 32}, {".b64", 64},
    {".u64", 64},   {".s64", 64},       {".f64", 64},    {".b128", 128},  {".pred", 0},
    {".texref", 0}, {".samplerref", 0}, {".surfref", 0},
};

template <size_t kCount>
bool is_one_of(const std::array<std::string_view, kCount>& names, const Token& token) {
  return token.kind == TokenKind::Directive &&
         std::find(names.begin(), names.end(), token.text()) != names.end();
}

const TypeSize* find_type(std::string_view name) {
  const auto* found = std::find_if(std::begin(kTypes), std::end(kTypes),
                                   [&](const TypeSize& type) { return type.type == name; });
  return found == std::end(kTypes) ? nullptr : found;
}

// The attributes between the state space and the name, in any order.
Status parse_type(Cursor& cursor, Variable& variable) {
  while (cursor.peek().kind == TokenKind::Directive) {
    const std::string_view name = cursor.take().text();
    if (name == ".align") {
      ATTACCA_TRY(const uint64_t bytes, cursor.expect_integer("an alignment"));
      if (bytes > UINT32_MAX) return cursor.unexpected("a smaller alignment before this");
      // After .ptr the alignment is that of the memory that the pointer points to.
      if (!variable.is_pointer) variable.alignment = static_cast<uint32_t>(bytes);
    } else if (name == ".v2" || name == ".v4" || name == ".v8") {
      variable.vector = static_cast<uint32_t>(name[2] - '0');
    } else if (name == ".ptr") {
      variable.is_pointer = true;
    } else if (name == ".attribute") {
      ATTACCA_TRY_VOID(cursor.expect('(', "after .attribute"));
      ATTACCA_TRY_VOID(cursor.skip_to(")", "the attribute"));
      ATTACCA_TRY_VOID(cursor.expect(')', "after the attribute"));
    } else if (variable.is_pointer && variable.pointer_to.empty()) {
      variable.pointer_to = name;
    } else if (find_type(name) && variable.type.empty()) {
      variable.type = name;
    } else {
      return cursor.unexpected("a type and a name");
    }
  }
  if (variable.type.empty()) return cursor.unexpected("a type such as .b32");
  return {};
}

Status parse_declarator(Cursor& cursor, Variable& variable) {
  ATTACCA_TRY(variable.name, cursor.expect_word("a name"));
  if (cursor.take_if('<')) {
    ATTACCA_TRY(const uint64_t count, cursor.expect_integer("a number of registers"));
    if (count > UINT32_MAX) return cursor.unexpected("fewer registers before this");
    variable.range = static_cast<uint32_t>(count);
    ATTACCA_TRY_VOID(cursor.expect('>', "after the number of registers"));
  }
  while (cursor.take_if('[')) {
    std::optional<uint64_t> extent;
    if (!cursor.peek().is(']')) {
      ATTACCA_TRY(extent, cursor.expect_integer("an array size"));
    }
    variable.dims.push_back(extent);
    ATTACCA_TRY_VOID(cursor.expect(']', "after the array size"));
  }
  if (cursor.take_if('=')) {
    const uint32_t begin = cursor.position();
    ATTACCA_TRY_VOID(cursor.skip_to(",;", "the initial value"));
    variable.initializer = cursor.since(begin);
  }
  return {};
}

// The state space, the type and what else the names of one declaration share.
Result<Variable> parse_shared_part(Cursor& cursor) {
  Variable variable;
  if (!is_state_space(cursor.peek())) return cursor.unexpected("a state space such as .reg");
  variable.space = cursor.take().text();
  if (variable.space == ".const" && cursor.peek().is('[')) {  // .const[3], an old constant bank
    ATTACCA_TRY_VOID(cursor.skip_to(";", "the constant bank"));
    return cursor.unexpected("no constant bank before this");
  }
  ATTACCA_TRY_VOID(parse_type(cursor, variable));
  return variable;
}

}  // namespace

bool is_linkage(const Token& token) {
  return is_one_of(kLinkages, token);
}

bool is_state_space(const Token& token) {
  return is_one_of(kStateSpaces, token);
}

uint32_t type_bits(std::string_view type) {
  const TypeSize* found = find_type(type);
  return found ? found->bits : 0;
}

std::optional<uint64_t> size_in_bytes(const Variable& variable) {
  constexpr uint64_t kAbsurd = uint64_t{1} << 40;
  uint64_t bytes = uint64_t{type_bits(variable.type)} / 8 * variable.vector;
  for (const auto& extent : variable.dims) {
    if (!extent || *extent > kAbsurd) return std::nullopt;
    bytes *= *extent;
    if (bytes > kAbsurd) return std::nullopt;
  }
  return bytes;
}

Result<Declaration> parse_declaration(Cursor& cursor) {
  const uint32_t begin = cursor.position();
  Declaration declaration;
  if (is_linkage(cursor.peek())) declaration.linkage = cursor.take().text();
  ATTACCA_TRY(const Variable shared, parse_shared_part(cursor));
  do {
    declaration.variables.push_back(shared);
    ATTACCA_TRY_VOID(parse_declarator(cursor, declaration.variables.back()));
  } while (cursor.take_if(','));
  ATTACCA_TRY_VOID(cursor.expect(';', "after the declaration"));
  declaration.span = cursor.since(begin);
  return declaration;
}

Result<std::vector<Variable>> parse_parameters(Cursor& cursor) {
  std::vector<Variable> parameters;
  ATTACCA_TRY_VOID(cursor.expect('(', "before the parameters"));
  if (cursor.take_if(')')) return parameters;
  do {
    ATTACCA_TRY(Variable parameter, parse_shared_part(cursor));
    ATTACCA_TRY_VOID(parse_declarator(cursor, parameter));
    parameters.push_back(std::move(parameter));
  } while (cursor.take_if(','));
  ATTACCA_TRY_VOID(cursor.expect(')', "after the parameters"));
  return parameters;
}

}  // namespace attacca::ptx
