#include "ptx/syntax/names.hpp"

#include "fmt/format.h"

#include "ptx/syntax/cursor.hpp"

namespace attacca::ptx {
namespace {

// A name may look like an opcode: only its place tells.
uint32_t opcode_token(const Instruction& instruction) {
  if (!instruction.predicate) return instruction.span.begin;
  return instruction.span.begin + (instruction.predicate->negated ? 3 : 2);
}

std::string_view without_component(std::string_view name) {
  return name.substr(0, name.find('.'));
}

}  // namespace

void NameTable::add(const Variable& variable) {
  const auto [at, is_new] = (variable.range ? ranges_ : names_).emplace(variable.name, &variable);
  if (!is_new && variable.range > at->second->range) at->second = &variable;
}

const Variable* NameTable::find(std::string_view name) const {
  name = without_component(name);
  if (const auto found = names_.find(name); found != names_.end()) return found->second;
  if (ranges_.empty()) return nullptr;
  // %a1<5> declares %a10 to %a14: any digit may start the number.
  constexpr size_t kMostDigits = 10;
  for (size_t cut = name.size(); cut > 0 && name.size() - cut < kMostDigits; --cut) {
    if (!is_digit(name[cut - 1])) break;
    const auto found = ranges_.find(name.substr(0, cut - 1));
    if (found == ranges_.end()) continue;
    const std::string_view digits = name.substr(cut - 1);
    uint64_t number = 0;
    for (const char c : digits) number = number * 10 + static_cast<uint64_t>(c - '0');
    const bool is_canonical = digits.size() == 1 || digits[0] != '0';
    if (is_canonical && number < *found->second->range) return found->second;
  }
  return nullptr;
}

const Variable* ScopeStack::find(std::string_view name) const {
  for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope)
    if (const Variable* found = scope->find(name)) return found;
  return nullptr;
}

std::string fresh_prefix(std::string_view stem, const Module& a, const Module& b) {
  std::unordered_set<std::string_view> used;  // what stands between the stem and the '_'
  for (const Module* module : {&a, &b})
    for (const Token& token : module->tokens) {
      std::string_view word = token.text();
      if (token.kind != TokenKind::Word) continue;
      if (word[0] == '%') word.remove_prefix(1);
      if (!word.starts_with(stem)) continue;
      word.remove_prefix(stem.size());
      if (const size_t end = word.find('_'); end != std::string_view::npos)
        used.insert(word.substr(0, end));
    }
  std::string number;
  for (int next = 1; used.contains(number); ++next) number = std::to_string(next);
  return fmt::format("{}{}_", stem, number);
}

bool Renamer::knows(std::string_view name) const {
  return names_.contains(without_component(name)) || variables_.find(name);
}

std::string Renamer::prefixed(std::string_view name) const {
  if (name.starts_with('%')) return fmt::format("%{}{}", prefix_, name.substr(1));
  return fmt::format("{}{}", prefix_, name);
}

std::string Renamer::renamed(std::string_view name) const {
  return knows(name) ? prefixed(name) : std::string(name);
}

void Renamer::rename(const Module& module, Span span, Edits& edits) const {
  for (uint32_t i = span.begin; i < span.end; ++i) {
    const Token& token = module.tokens[i];
    if (token.kind != TokenKind::Word) continue;
    const bool declares_range = module.tokens[i + 1].is('<') && variables_.has_range(token.text());
    if (declares_range || knows(token.text())) edits.replace({i, i + 1}, prefixed(token.text()));
  }
}

void Renamer::rename(const Module& module, const Scope& scope, Edits& edits) const {
  for (const Statement& statement : scope.statements) {
    const Span span = span_of(statement.node);
    const auto* inner = std::get_if<Scope>(&statement.node);
    const auto* directive = std::get_if<Directive>(&statement.node);
    const auto* instruction = std::get_if<Instruction>(&statement.node);
    if (edits.covers(span.begin)) continue;
    if (inner) {
      rename(module, *inner, edits);
    } else if (directive && (directive->name == ".loc" || directive->name == ".file")) {
      edits.replace(span, "");
    } else if (instruction) {
      rename(module, Span{span.begin, opcode_token(*instruction)}, edits);
      rename(module, Span{opcode_token(*instruction) + 1, span.end}, edits);
    } else {
      rename(module, span, edits);
    }
  }
}

}  // namespace attacca::ptx
