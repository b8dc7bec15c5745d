#include "ptx/splice/body.hpp"

#include <algorithm>

#include "fmt/format.h"

#include "support/check.hpp"

namespace attacca::ptx {
namespace {

// The formal's number, or the count where it is none of them.
size_t index_of(const std::vector<Variable>& formals, const Variable& variable) {
  const auto found = std::find_if(formals.begin(), formals.end(),
                                  [&](const Variable& formal) { return &formal == &variable; });
  return static_cast<size_t>(found - formals.begin());
}

}  // namespace

std::string guard_text(const std::optional<Predicate>& predicate, bool inverted) {
  if (!predicate) return {};
  return fmt::format("@{}{} ", predicate->negated != inverted ? "!" : "", predicate->name);
}

Result<Body> Body::prepare(const Module& module, const Function& function, Renamer& renamer) {
  Body body(module, function);
  ATTACCA_TRY_VOID(body.collect(*function.body, renamer));
  ATTACCA_TRY(body.params_, find_param_uses(module, function, function.name));
  ATTACCA_TRY_VOID(body.check_parameters());
  return body;
}

Status Body::collect(const Scope& scope, Renamer& renamer) {
  for (const Statement& statement : scope.statements) {
    if (const auto* inner = std::get_if<Scope>(&statement.node))
      ATTACCA_TRY_VOID(collect(*inner, renamer));
    if (const auto* declaration = std::get_if<Declaration>(&statement.node))
      ATTACCA_TRY_VOID(collect(*declaration, renamer));
    if (const auto* label = std::get_if<Label>(&statement.node)) renamer.add(label->name);
    if (const auto* instruction = std::get_if<Instruction>(&statement.node))
      if (opcode_parts(instruction->opcode)[0] == "ret") returns_.push_back(instruction);
  }
  return {};
}

Status Body::collect(const Declaration& declaration, Renamer& renamer) {
  const std::string_view space = declaration.variables.front().space;
  for (const Variable& variable : declaration.variables) renamer.add(variable);
  if (space == ".local") locals_.push_back(&declaration);
  if (space == ".reg" || space == ".local" || space == ".param") return {};
  return fail(fmt::format("'{}' declares a {} variable inside", function_->name, space),
              module_->where(declaration.span), "move it out of the function");
}

Status Body::check_parameters() const {
  for (const auto* formals : {&function_->results, &function_->parameters})
    for (const Variable& formal : *formals)
      if (const auto escape = params_.escapes.find(&formal); escape != params_.escapes.end())
        return fail(fmt::format("'{}' uses its parameter {} other than by plain ld.param and "
                                "st.param: {}",
                                function_->name, formal.name, module_->text(escape->second->span)),
                    module_->where(escape->second->span),
                    "pass values, and index no parameter at run time");
  return {};
}

std::vector<const ParamAccess*> Body::result_writes(size_t i) const {
  std::vector<const ParamAccess*> writes;
  for (const ParamUse& use : params_.uses)
    if (use.is_store && use.variable == &function_->results[i])
      for (const ParamAccess& access : use.accesses) writes.push_back(&access);
  return writes;
}

std::string Body::local_declarations(const Renamer& renamer) const {
  std::string text;
  for (const Declaration* declaration : locals_) {
    Edits edits(*module_);
    renamer.rename(*module_, declaration->span, edits);
    text += fmt::format("\n\t{}", edits.apply(declaration->span));
  }
  return text;
}

const Slots* Body::slots_of(const Variable& formal, const CallSlots& slots) const {
  const size_t result = index_of(function_->results, formal);
  if (result < function_->results.size()) return slots.results[result];
  const size_t argument = index_of(function_->parameters, formal);
  if (argument < function_->parameters.size()) return slots.arguments[argument];
  return nullptr;  // a parameter of a call in the body
}

std::string Body::replacement(const ParamUse& use, const Slots& slots,
                              const Renamer& renamer) const {
  std::optional<Predicate> predicate = use.instruction->predicate;
  const std::string register_name = predicate ? renamer.renamed(predicate->name) : std::string();
  if (predicate) predicate->name = register_name;
  const std::string guard = guard_text(predicate);
  std::string text;
  for (const ParamAccess& access : use.accesses) {
    const std::string name = renamer.renamed(access.text);
    text += fmt::format(
        "{}{}", text.empty() ? "" : "\n\t",
        use.is_store ? slots.store(access, guard, name) : slots.load(access, guard, name));
  }
  return text;
}

bool Body::is_last(const Instruction& ret) const {
  const auto* last = std::get_if<Instruction>(&function_->body->statements.back().node);
  return last == &ret && !ret.predicate;
}

std::string Body::write(const CallSlots& slots, std::string_view skip, std::string_view end_label,
                        const Renamer& renamer) const {
  Edits edits(*module_);
  bool needs_end = !skip.empty();
  for (const ParamUse& use : params_.uses)
    if (const Slots* own = slots_of(*use.variable, slots))
      edits.replace(use.instruction->span, replacement(use, *own, renamer));
  for (const Declaration* declaration : locals_) edits.replace(declaration->span, "");
  for (const Instruction* ret : returns_) {
    const bool falls_through = is_last(*ret);
    needs_end |= !falls_through;
    std::optional<Predicate> predicate = ret->predicate;
    const std::string name = predicate ? renamer.renamed(predicate->name) : std::string();
    if (predicate) predicate->name = name;
    edits.replace(ret->span,
                  falls_through ? "" : fmt::format("{}bra {};", guard_text(predicate), end_label));
  }
  renamer.rename(*module_, *function_->body, edits);

  const Span scope = function_->body->span;
  std::string text = fmt::format("{{ // {}\n", function_->name);
  if (!skip.empty()) text += fmt::format("\t{}bra {};\n", skip, end_label);
  text += fmt::format("\t{}\n", edits.apply(Span{scope.begin + 1, scope.end - 1}));
  if (needs_end) text += fmt::format("{}:\n", end_label);
  return text + "\t}";
}

}  // namespace attacca::ptx
