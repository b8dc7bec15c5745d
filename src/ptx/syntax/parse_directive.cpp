// Directives end where their grammar ends: ptxas also takes an instruction behind .loc or .target
// on the same line.
#include <initializer_list>

#include "fmt/format.h"

#include "ptx/syntax/parser.hpp"

namespace attacca::ptx {
namespace {

Status skip_integers(Cursor& cursor, std::initializer_list<std::string_view> names) {
  for (const std::string_view name : names) ATTACCA_TRY_VOID(cursor.expect_integer(name));
  return {};
}

Status skip_place(Cursor& cursor) {
  return skip_integers(cursor, {"a file's number", "a line", "a column"});
}

Status skip_keyword(Cursor& cursor, std::string_view keyword) {
  if (cursor.peek().text() != keyword) return cursor.unexpected(fmt::format("'{}'", keyword));
  cursor.take();
  return {};
}

// A label, or a section such as .debug_str.
Status skip_name(Cursor& cursor, std::string_view what) {
  const TokenKind kind = cursor.peek().kind;
  if (kind != TokenKind::Directive && kind != TokenKind::Word) return cursor.unexpected(what);
  cursor.take();
  return {};
}

// FILE LINE COLUMN [, function_name LABEL [+ BYTES], inlined_at FILE LINE COLUMN]
Status skip_location(Cursor& cursor) {
  ATTACCA_TRY_VOID(skip_place(cursor));
  if (!cursor.take_if(',')) return {};
  ATTACCA_TRY_VOID(skip_keyword(cursor, "function_name"));
  ATTACCA_TRY_VOID(skip_name(cursor, "a label"));
  if (cursor.take_if('+')) ATTACCA_TRY_VOID(cursor.expect_integer("a number of bytes"));
  ATTACCA_TRY_VOID(cursor.expect(',', "before inlined_at"));
  ATTACCA_TRY_VOID(skip_keyword(cursor, "inlined_at"));
  return skip_place(cursor);
}

// NUMBER "NAME" [, TIME, SIZE]
Status skip_file(Cursor& cursor) {
  ATTACCA_TRY_VOID(cursor.expect_integer("a file's number"));
  if (cursor.peek().kind != TokenKind::String) return cursor.unexpected("a file's name");
  cursor.take();
  if (!cursor.take_if(',')) return {};
  ATTACCA_TRY_VOID(cursor.expect_integer("a time"));
  ATTACCA_TRY_VOID(cursor.expect(',', "before the size"));
  return skip_integers(cursor, {"a size"});
}

// sm_90a, debug
Status skip_targets(Cursor& cursor) {
  do {
    ATTACCA_TRY_VOID(cursor.expect_word("a target"));
  } while (cursor.take_if(','));
  return {};
}

// 9.0
Status skip_version(Cursor& cursor) {
  if (cursor.peek().kind != TokenKind::Number) return cursor.unexpected("a version");
  cursor.take();
  return {};
}

// NAME { ... }
Status skip_section(Cursor& cursor) {
  ATTACCA_TRY_VOID(skip_name(cursor, "a section's name"));
  ATTACCA_TRY_VOID(cursor.expect('{', "before the section"));
  ATTACCA_TRY_VOID(cursor.skip_to("}", "the section"));
  return cursor.expect('}', "after the section");
}

Status skip_operands(Cursor& cursor, std::string_view name) {
  if (name == ".loc") return skip_location(cursor);
  if (name == ".file") return skip_file(cursor);
  if (name == ".target") return skip_targets(cursor);
  if (name == ".version") return skip_version(cursor);
  if (name == ".address_size") return skip_integers(cursor, {"a number of bits"});
  if (name == ".section") return skip_section(cursor);
  ATTACCA_TRY_VOID(cursor.skip_to(";", name));
  return cursor.expect(';', "after the directive");
}

}  // namespace

Result<Directive> parse_directive(Cursor& cursor) {
  const uint32_t begin = cursor.position();
  if (cursor.take_if(';')) return Directive{cursor.since(begin), {}};
  const std::string_view name = cursor.take().text();
  ATTACCA_TRY_VOID(skip_operands(cursor, name));
  return Directive{cursor.since(begin), name};
}

}  // namespace attacca::ptx
