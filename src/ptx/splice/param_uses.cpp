#include "ptx/splice/param_uses.hpp"

#include "fmt/format.h"

#include "ptx/syntax/names.hpp"

namespace attacca::ptx {
namespace {

bool is_param(const Variable* variable) {
  return variable && variable->space == ".param";
}

struct Move {  // ld.param.v2.f32: two elements of 32 bits
  bool is_store = false;
  uint32_t elements = 1;
  uint32_t bits = 0;
  bool is_signed = false;
};

// nullopt: the instruction is no ld.param or st.param, or one of an unknown form.
std::optional<Move> as_param_move(std::string_view opcode) {
  if (!opcode.starts_with("ld.param") && !opcode.starts_with("st.param")) return std::nullopt;
  Move move;
  move.is_store = opcode.starts_with("st");
  const std::vector<std::string_view> parts = opcode_parts(opcode);
  if (parts[1] != "param" && parts[1] != "param::func") return std::nullopt;
  for (size_t i = 2; i < parts.size(); ++i) {
    if (parts[i] == "v2" || parts[i] == "v4" || parts[i] == "v8") {
      move.elements = static_cast<uint32_t>(parts[i][1] - '0');
      continue;
    }
    if (move.bits != 0) return std::nullopt;
    move.bits = type_bits(fmt::format(".{}", parts[i]));
    if (move.bits == 0) return std::nullopt;
    move.is_signed = parts[i][0] == 's';
  }
  return move.bits == 0 ? std::nullopt : std::optional(move);
}

class Finder {
 public:
  Finder(const Module& module, std::string_view callee) : module_(module), callee_(callee) {}

  Result<ParamUses> run(const Function& function) {
    scopes_.enter();
    for (const Variable& result : function.results) scopes_.declare(result);
    for (const Variable& parameter : function.parameters) scopes_.declare(parameter);
    ATTACCA_TRY_VOID(visit(*function.body));
    return std::move(found_);
  }

 private:
  Status visit(const Scope& scope) {
    scopes_.enter();
    for (const Statement& statement : scope.statements)
      ATTACCA_TRY_VOID(std::visit([&](const auto& node) { return visit(node); }, statement.node));
    scopes_.leave();
    return {};
  }
  Status visit(const Label&) { return {}; }
  Status visit(const Directive&) { return {}; }

  Status visit(const Declaration& declaration) {
    for (const Variable& variable : declaration.variables) scopes_.declare(variable);
    if (declaration.variables.front().space == ".param")
      found_.declarations.push_back(&declaration);
    return {};
  }

  Status visit(const Instruction& instruction) {
    if (is_call_of_callee(instruction)) return add_call(instruction);
    if (const auto move = as_param_move(instruction.opcode))
      if (const auto use = as_use(instruction, *move)) {
        if (!use->accesses.empty()) found_.uses.push_back(*use);
        return {};
      }
    note_escapes(instruction);
    return {};
  }

  bool is_call_of_callee(const Instruction& instruction) const {
    if (!instruction.opcode.starts_with("call")) return false;
    for (const Operand& operand : instruction.operands)
      if (const auto* name = std::get_if<Name>(&operand.form)) return name->text == callee_;
    return false;
  }

  // ( results ), callee, ( arguments )
  Status add_call(const Instruction& instruction) {
    ParamCall call{&instruction, {}, {}};
    bool is_after_callee = false;
    for (const Operand& operand : instruction.operands) {
      if (std::holds_alternative<Name>(operand.form)) is_after_callee = true;
      const auto* list = std::get_if<Tuple>(&operand.form);
      if (!list) continue;
      for (const Operand& element : list->elements) {
        const auto* name = std::get_if<Name>(&element.form);
        const Variable* variable = name ? scopes_.find(name->text) : nullptr;
        if (!is_param(variable))
          return fail(fmt::format("the call of '{}' passes {}, which is no .param variable",
                                  callee_, module_.text(element.span)),
                      module_.where(element.span),
                      "compile it with nvcc, NVRTC or clang for sm_20 or later");
        (is_after_callee ? call.arguments : call.results).push_back(variable);
      }
    }
    found_.calls.push_back(std::move(call));
    return {};
  }

  // nullopt: not a plain access of a .param variable; it may still mention one.
  std::optional<ParamUse> as_use(const Instruction& instruction, const Move& move) const {
    if (instruction.operands.size() != 2) return std::nullopt;
    const Operand& memory = instruction.operands[move.is_store ? 0 : 1];
    const Operand& registers = instruction.operands[move.is_store ? 1 : 0];
    const auto* address = std::get_if<Address>(&memory.form);
    if (!address || !address->coordinates.empty() || address->offset < 0) return std::nullopt;
    const Variable* variable = scopes_.find(address->base);
    if (!is_param(variable)) return std::nullopt;
    ParamUse use{&instruction, variable, move.is_store, {}};
    const auto* list = std::get_if<Tuple>(&registers.form);
    const Operand* elements = list ? list->elements.data() : &registers;
    if ((list ? list->elements.size() : 1) != move.elements) return std::nullopt;
    for (uint32_t i = 0; i < move.elements; ++i) {
      const auto access = as_access(elements[i], move);
      if (!access) return std::nullopt;
      use.accesses.push_back(*access);
      use.accesses.back().offset =
          static_cast<uint64_t>(address->offset) + uint64_t{i} * move.bits / 8;
    }
    const auto size = size_in_bytes(*variable);
    if (!size || use.accesses.back().offset + move.bits / 8 > *size) return std::nullopt;
    return use;
  }

  std::optional<ParamAccess> as_access(const Operand& element, const Move& move) const {
    ParamAccess access{0, move.bits, move.is_signed, {}, 0, false};
    if (const auto* immediate = std::get_if<Immediate>(&element.form)) {
      access.text = immediate->text;
      return move.is_store ? std::optional(access) : std::nullopt;
    }
    const auto* name = std::get_if<Name>(&element.form);
    const Variable* variable = name ? scopes_.find(name->text) : nullptr;
    if (!variable || variable->space != ".reg") return std::nullopt;
    access.text = name->text;
    access.register_bits = type_bits(variable->type);
    access.is_float = variable->type.starts_with(".f") || variable->type.starts_with(".bf");
    return access.register_bits < move.bits ? std::nullopt : std::optional(access);
  }

  void note_escapes(const Instruction& instruction) {
    for (uint32_t i = instruction.span.begin; i < instruction.span.end; ++i) {
      const Token& token = module_.tokens[i];
      if (token.kind != TokenKind::Word) continue;
      const Variable* variable = scopes_.find(token.text());
      if (is_param(variable)) found_.escapes.emplace(variable, &instruction);
    }
  }

  const Module& module_;
  std::string_view callee_;
  ScopeStack scopes_;
  ParamUses found_;
};

}  // namespace

Result<ParamUses> find_param_uses(const Module& module, const Function& function,
                                  std::string_view callee) {
  return Finder(module, callee).run(function);
}

}  // namespace attacca::ptx
