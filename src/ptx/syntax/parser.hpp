// The parts of the parser: module and functions (parse_module.cpp), declarations
// (parse_variable.cpp), statements and operands (parse_statement.cpp), directives
// (parse_directive.cpp).
#pragma once

#include <string_view>
#include <vector>

#include "ptx/syntax/cursor.hpp"
#include "ptx/syntax/syntax.hpp"

namespace attacca::ptx {

bool is_linkage(const Token& token);
bool is_state_space(const Token& token);

// [LINKAGE] SPACE ... name, name = initializer ;
Result<Declaration> parse_declaration(Cursor& cursor);
// ( .param .b32 a, .param .align 8 .b8 b[16] )
Result<std::vector<Variable>> parse_parameters(Cursor& cursor);

// A directive with its operands, and its ';' or section.
Result<Directive> parse_directive(Cursor& cursor);
// { ... }. REQUIRES: the cursor is at '{'.
Result<Scope> parse_scope(Cursor& cursor, int depth);

}  // namespace attacca::ptx
