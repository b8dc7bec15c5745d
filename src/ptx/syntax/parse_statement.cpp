#include "ptx/syntax/parser.hpp"

namespace attacca::ptx {
namespace {

Result<Operand> parse_operand(Cursor& cursor, int depth);

bool ends_operand(const Token& token) {
  constexpr std::string_view kEnds = ",;)]}";
  return token.kind == TokenKind::Symbol && kEnds.find(token.text()[0]) != std::string_view::npos;
}

// One more than the number of commas up to the list's end, or up to a bound. A guess, which is
// nearly always right.
size_t count_operands(const Cursor& cursor) {
  constexpr uint32_t kFarthest = 64;
  size_t count = 1;
  int depth = 0;
  for (uint32_t ahead = 0; ahead < kFarthest; ++ahead) {
    const Token& token = cursor.peek(ahead);
    if (token.kind == TokenKind::End) break;
    if (token.kind != TokenKind::Symbol) continue;
    const char c = *token.data;
    if (c == '(' || c == '[' || c == '{') ++depth;
    if (c == ';' || ((c == ')' || c == ']' || c == '}') && depth-- == 0)) break;
    count += c == ',' && depth == 0;
  }
  return count;
}

Result<std::vector<Operand>> parse_operands(Cursor& cursor, char close, int depth) {
  std::vector<Operand> operands;
  if (cursor.peek().is(close)) return operands;
  operands.reserve(count_operands(cursor));
  do {
    ATTACCA_TRY(Operand operand, parse_operand(cursor, depth));
    operands.push_back(std::move(operand));
  } while (cursor.take_if(','));
  return operands;
}

// [+|-] integer, any number of times, added up: [%rd1+-4].
std::optional<int64_t> take_offset(Cursor& cursor) {
  uint64_t sum = 0;
  while (cursor.peek().is('+') || cursor.peek().is('-')) {
    bool negative = false;
    while (cursor.peek().is('+') || cursor.peek().is('-')) negative ^= cursor.take().is('-');
    const auto value = cursor.peek().kind == TokenKind::Number ? to_integer(cursor.peek().text())
                                                               : std::optional<uint64_t>();
    if (!value) return std::nullopt;
    cursor.take();
    sum += negative ? 0 - *value : *value;
  }
  return static_cast<int64_t>(sum);
}

// REQUIRES: the cursor is after '['. The form stays an Expression if it is no plain address.
Status parse_address(Cursor& cursor, int depth, Operand& operand) {
  Address address;
  std::optional<int64_t> offset = 0;
  if (cursor.peek().kind == TokenKind::Word) {
    address.base = cursor.take().text();
    offset = take_offset(cursor);
  } else if (cursor.peek().kind == TokenKind::Number) {
    const auto absolute = to_integer(cursor.take().text());
    offset = absolute ? std::optional(static_cast<int64_t>(*absolute)) : std::nullopt;
  } else {
    offset.reset();
  }
  if (offset && cursor.take_if(',')) {
    ATTACCA_TRY(address.coordinates, parse_operands(cursor, ']', depth));
  }
  if (offset && cursor.peek().is(']')) {
    address.offset = *offset;
    operand.form = std::move(address);
  } else {
    ATTACCA_TRY_VOID(cursor.skip_to("]", "the address"));
  }
  return cursor.expect(']', "after the address");
}

Status parse_tuple(Cursor& cursor, char close, int depth, Operand& operand) {
  ATTACCA_TRY(std::vector<Operand> elements, parse_operands(cursor, close, depth));
  operand.form = Tuple{std::move(elements)};
  return cursor.expect(close, "after the list");
}

// A name or a number, alone.
bool take_simple(Cursor& cursor, Operand& operand) {
  const uint32_t sign = cursor.peek().is('-') ? 1 : 0;
  const TokenKind kind = cursor.peek(sign).kind;
  if (!ends_operand(cursor.peek(sign + 1))) return false;
  if (kind == TokenKind::Number) {
    const Token& first = cursor.peek();
    const Token& last = cursor.peek(sign);
    operand.form = Immediate{{first.data, static_cast<size_t>(last.data - first.data) + last.size}};
  } else if (kind == TokenKind::Word && sign == 0) {
    operand.form = Name{cursor.peek().text()};
  } else {
    return false;
  }
  for (uint32_t i = 0; i <= sign; ++i) cursor.take();
  return true;
}

Result<Operand> parse_operand(Cursor& cursor, int depth) {
  if (depth == kMaxDepth) return cursor.unexpected("fewer nested brackets");
  const uint32_t begin = cursor.position();
  Operand operand{{}, Expression{}};
  if (!take_simple(cursor, operand)) {
    if (cursor.take_if('[')) {
      ATTACCA_TRY_VOID(parse_address(cursor, depth + 1, operand));
    } else if (cursor.take_if('{')) {
      ATTACCA_TRY_VOID(parse_tuple(cursor, '}', depth + 1, operand));
    } else if (cursor.take_if('(')) {
      ATTACCA_TRY_VOID(parse_tuple(cursor, ')', depth + 1, operand));
    }
    if (!ends_operand(cursor.peek())) {
      operand.form = Expression{};
      ATTACCA_TRY_VOID(cursor.skip_to(",;", "the operand"));
    }
  }
  operand.span = cursor.since(begin);
  if (operand.span.begin == operand.span.end) return cursor.unexpected("an operand");
  return operand;
}

Result<Instruction> parse_instruction(Cursor& cursor) {
  const uint32_t begin = cursor.position();
  Instruction instruction;
  if (cursor.take_if('@')) {
    Predicate predicate;
    predicate.negated = cursor.take_if('!');
    ATTACCA_TRY(predicate.name, cursor.expect_word("a predicate register"));
    instruction.predicate = predicate;
  }
  ATTACCA_TRY(instruction.opcode, cursor.expect_word("an instruction"));
  ATTACCA_TRY(instruction.operands, parse_operands(cursor, ';', 0));
  ATTACCA_TRY_VOID(cursor.expect(';', "after the instruction"));
  instruction.span = cursor.since(begin);
  return instruction;
}

Result<Label> parse_label(Cursor& cursor) {
  const uint32_t begin = cursor.position();
  const std::string_view name = cursor.take().text();
  ATTACCA_TRY_VOID(cursor.expect(':', "after the label"));
  return Label{cursor.since(begin), name};
}

template <class Node>
Result<Statement> as_statement(Result<Node> node) {
  if (!node) return tl::make_unexpected(std::move(node).error());
  return Statement{*std::move(node)};
}

Result<Statement> parse_statement(Cursor& cursor, int depth) {
  const Token& token = cursor.peek();
  if (token.is('{')) return as_statement(parse_scope(cursor, depth));
  if (is_state_space(token) || is_linkage(token)) return as_statement(parse_declaration(cursor));
  if (token.kind == TokenKind::Directive || token.is(';'))
    return as_statement(parse_directive(cursor));
  if (token.kind == TokenKind::Word && cursor.peek(1).is(':'))
    return as_statement(parse_label(cursor));
  return as_statement(parse_instruction(cursor));
}

}  // namespace

Result<Scope> parse_scope(Cursor& cursor, int depth) {
  if (depth == kMaxDepth) return cursor.unexpected("fewer nested scopes");
  Scope scope;
  const uint32_t begin = cursor.position();
  ATTACCA_TRY_VOID(cursor.expect('{', "before the statements"));
  constexpr uint32_t kTokensAStatement = 8;  // and not fewer, so that a function's list never grows
  if (depth == 0) scope.statements.reserve(cursor.left() / kTokensAStatement);
  while (!cursor.peek().is('}')) {
    if (cursor.at_end()) return cursor.unexpected("'}'");
    ATTACCA_TRY(Statement statement, parse_statement(cursor, depth + 1));
    scope.statements.push_back(std::move(statement));
  }
  cursor.take();
  scope.span = cursor.since(begin);
  return scope;
}

}  // namespace attacca::ptx
