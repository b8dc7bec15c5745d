#include "ptx/analysis/function_code.hpp"

#include <map>

#include "ptx/syntax/cursor.hpp"
#include "ptx/syntax/names.hpp"

namespace attacca::ptx {
namespace {

class Lowering {
 public:
  Lowering(const ModuleCode& modules, const Function& function)
      : modules_(modules), module_(modules.module()) {
    code_.function = &function;
    scopes_.enter();
    for (const Item& item : module_.items)
      if (const auto* declaration = std::get_if<Declaration>(&item)) visit(*declaration);
    for (const auto* formals : {&function.results, &function.parameters})
      for (const Variable& formal : *formals) scopes_.declare(formal);
    visit(*function.body);
  }

  FunctionCode take() { return std::move(code_); }

 private:
  void visit(const Scope& scope) {
    scopes_.enter();
    for (const Statement& statement : scope.statements)
      std::visit([&](const auto& node) { visit(node); }, statement.node);
    scopes_.leave();
  }
  void visit(const Label&) {}
  void visit(const Declaration& declaration) {
    for (const Variable& variable : declaration.variables) scopes_.declare(variable);
  }

  void visit(const Directive& directive) {
    if (directive.name != ".loc") return;
    for (uint32_t i = directive.span.begin; i < directive.span.end; ++i)
      if (module_.tokens[i].text() == "inlined_at") return;
    line_ = &directive;
  }

  void visit(const Instruction& instruction) {
    Step step{&instruction, line_, opcode_parts(instruction.opcode), {}, {}};
    if (instruction.predicate) step.predicate = resolve(instruction.predicate->name);
    step.arguments.reserve(instruction.operands.size());
    for (const Operand& operand : instruction.operands) step.arguments.push_back(lowered(operand));
    code_.steps.push_back(std::move(step));
  }

  Argument lowered(const Operand& operand) {
    Argument argument;
    if (const auto* name = std::get_if<Name>(&operand.form)) {
      argument.form = Argument::Form::Value;
      argument.ref = resolve(name->text);
    } else if (const auto* number = std::get_if<Immediate>(&operand.form)) {
      argument.form = Argument::Form::Value;
      argument.ref = {Ref::Kind::Immediate, 0, nullptr, number->text};
    } else if (const auto* address = std::get_if<Address>(&operand.form)) {
      argument.form = Argument::Form::Address;
      argument.offset = address->offset;
      if (address->base.empty())
        argument.ref.kind = Ref::Kind::Immediate;
      else
        argument.ref = resolve(address->base);
      for (const Operand& coordinate : address->coordinates) flatten(coordinate, argument.parts);
    } else if (const auto* tuple = std::get_if<Tuple>(&operand.form)) {
      argument.form = Argument::Form::Tuple;
      for (const Operand& element : tuple->elements) flatten(element, argument.parts);
    } else {
      lower_expression(operand.span, argument);
    }
    return argument;
  }

  // symbol+4 is an address as a value; of anything else only the names count.
  void lower_expression(Span span, Argument& argument) {
    const std::vector<Token>& tokens = module_.tokens;
    if (tokens[span.begin].is('[')) argument.form = Argument::Form::Address;
    for (uint32_t i = span.begin; i < span.end; ++i)
      if (tokens[i].kind == TokenKind::Word) argument.parts.push_back(resolve(tokens[i].text()));
    if (span.end - span.begin != 3 || argument.parts.size() != 1 ||
        argument.parts[0].kind != Ref::Kind::Variable || !tokens[span.begin + 1].is('+'))
      return;
    const auto offset = to_integer(tokens[span.begin + 2].text());
    if (!offset) return;
    argument.form = Argument::Form::Value;
    argument.ref = argument.parts[0];
    argument.offset = static_cast<int64_t>(*offset);
    argument.parts.clear();
  }

  void flatten(const Operand& operand, std::vector<Ref>& into) {
    const Argument inner = lowered(operand);
    if (inner.form == Argument::Form::Value || inner.form == Argument::Form::Address)
      into.push_back(inner.ref);
    into.insert(into.end(), inner.parts.begin(), inner.parts.end());
  }

  Ref resolve(std::string_view name) {
    if (const Variable* variable = scopes_.find(name)) {
      if (variable->space != ".reg") return {Ref::Kind::Variable, 0, variable, name};
      return {Ref::Kind::Register, register_of(variable, name), variable, name};
    }
    if (modules_.find(name)) return {Ref::Kind::Function, 0, nullptr, name};
    return {Ref::Kind::Special, 0, nullptr, name};
  }

  // %v.x and %v.y are parts of one register.
  uint32_t register_of(const Variable* variable, std::string_view name) {
    const std::pair key(variable, name.substr(0, name.find('.')));
    const auto [found, fresh] =
        numbers_.try_emplace(key, static_cast<uint32_t>(code_.registers.size()));
    if (fresh) code_.registers.push_back(variable);
    return found->second;
  }

  const ModuleCode& modules_;
  const Module& module_;
  ScopeStack scopes_;
  std::map<std::pair<const Variable*, std::string_view>, uint32_t> numbers_;
  const Directive* line_ = nullptr;
  FunctionCode code_;
};

}  // namespace

ModuleCode::ModuleCode(const Module& module) : module_(module) {
  for (const Item& item : module.items)
    if (const auto* function = std::get_if<Function>(&item)) {
      const auto [found, fresh] = functions_.try_emplace(function->name, function);
      if (!fresh && function->body) found->second = function;
    }
}

const Function* ModuleCode::find(std::string_view name) const {
  const auto found = functions_.find(name);
  return found == functions_.end() ? nullptr : found->second;
}

const FunctionCode& ModuleCode::code_of(const Function& function) {
  std::unique_ptr<FunctionCode>& code = lowered_[&function];
  if (!code) code = std::make_unique<FunctionCode>(Lowering(*this, function).take());
  return *code;
}

}  // namespace attacca::ptx
