#include "ptx/analysis/static_variables.hpp"

#include <unordered_map>

#include "fmt/format.h"

#include "ptx/syntax/edits.hpp"
#include "ptx/syntax/names.hpp"

namespace attacca::ptx {
namespace {

// Each thread's call has its own .reg, .local and .param.
bool is_static(const Variable& variable) {
  return variable.space == ".shared" || variable.space == ".global" || variable.space == ".const";
}

class Mover {
 public:
  Mover(const Module& module, std::string_view prefix)
      : module_(module), edits_(module), prefix_(prefix) {}

  void move_out(const Function& function) {
    function_ = &function;
    declarations_.clear();
    names_function_ = false;
    scopes_.enter();
    for (const auto* formals : {&function.results, &function.parameters})
      for (const Variable& formal : *formals) scopes_.declare(formal);
    visit(*function.body);
    scopes_.leave();
    if (declarations_.empty()) return;
    edits_.insert_after(function.span.begin - 1,
                        "\n" + (names_function_ ? declaration() : "") + declarations_);
  }

  bool moved() const { return !names_.empty(); }
  std::string text() const { return edits_.apply(); }

 private:
  void visit(const Label&) {}
  void visit(const Directive&) {}
  void visit(const Scope& scope) {
    scopes_.enter();
    for (const Statement& statement : scope.statements)
      std::visit([&](const auto& node) { visit(node); }, statement.node);
    scopes_.leave();
  }

  void visit(const Declaration& declaration) {
    for (const Variable& variable : declaration.variables) {
      scopes_.declare(variable);
      if (is_static(variable)) names_.emplace(&variable, new_name(variable));
    }
    if (!is_static(declaration.variables.front())) return;
    Edits own(module_);
    for (const Variable& variable : declaration.variables) {
      rename(name_of(variable, declaration), variable, own);
      rename_uses(variable.initializer, own);
      names_function_ |= mentions_function(variable.initializer);
    }
    declarations_ += "\n" + own.apply(declaration.span);
    edits_.replace(declaration.span, "");
  }

  // The opcode may look like a variable's name.
  void visit(const Instruction& instruction) {
    for (const Operand& operand : instruction.operands) rename_uses(operand.span, edits_);
  }

  std::string new_name(const Variable& variable) const {
    const bool has_percent = variable.name.starts_with('%');
    return fmt::format("{}{}{}_{}", has_percent ? "%" : "", prefix_, names_.size(),
                       variable.name.substr(has_percent ? 1 : 0));
  }

  uint32_t name_of(const Variable& variable, const Declaration& declaration) const {
    uint32_t i = declaration.span.begin;
    while (module_.tokens[i].data != variable.name.data()) ++i;
    return i;
  }

  // A range's variable a<4> is also named a3.
  void rename(uint32_t token, const Variable& variable, Edits& edits) const {
    const std::string_view text = module_.tokens[token].text();
    edits.replace({token, token + 1},
                  fmt::format("{}{}", names_.at(&variable), text.substr(variable.name.size())));
  }

  void rename_uses(Span span, Edits& edits) const {
    for (uint32_t i = span.begin; i < span.end; ++i) {
      if (module_.tokens[i].kind != TokenKind::Word) continue;
      const Variable* variable = scopes_.find(module_.tokens[i].text());
      if (variable && names_.contains(variable)) rename(i, *variable, edits);
    }
  }

  // An initial value may be the address of the function itself.
  bool mentions_function(Span span) const {
    for (uint32_t i = span.begin; i < span.end; ++i)
      if (module_.tokens[i].text() == function_->name) return true;
    return false;
  }
  std::string declaration() const {
    const Span header{function_->span.begin, function_->body->span.begin};
    return fmt::format("\n{};", module_.text(header));
  }

  const Module& module_;
  Edits edits_;
  std::string_view prefix_;
  ScopeStack scopes_;
  std::unordered_map<const Variable*, std::string> names_;  // the new ones
  const Function* function_ = nullptr;
  std::string declarations_;     // of its variables
  bool names_function_ = false;  // in an initial value
};

}  // namespace

std::optional<std::string> move_static_variables_out(const Module& module,
                                                     const std::set<const Function*>& functions,
                                                     std::string_view prefix) {
  Mover mover(module, prefix);
  for (const Function* function : functions) mover.move_out(*function);
  if (!mover.moved()) return std::nullopt;
  return mover.text();
}

}  // namespace attacca::ptx
