// A function's instructions with every name resolved: what the analysis of addresses walks over.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "ptx/syntax/syntax.hpp"

namespace attacca::ptx {

// What one name or number stands for.
struct Ref {
  enum class Kind : uint8_t {
    Register,
    Variable,  // of any space but .reg
    Function,
    Immediate,
    Special  // %tid.x, a label, '_', or nothing that the module declares
  };
  Kind kind = Kind::Special;
  uint32_t index = 0;                  // of a register in FunctionCode::registers
  const Variable* variable = nullptr;  // a register's or variable's declaration
  std::string_view text;
};

struct Argument {
  enum class Form : uint8_t { Value, Address, Tuple, Other };
  Form form = Form::Other;
  Ref ref;                 // Value; Address: its base
  int64_t offset = 0;      // Value: of a variable's address. Address: from the base
  std::vector<Ref> parts;  // Tuple: the elements; Address: coordinates; Other: all that is named

  bool is_register() const { return form == Form::Value && ref.kind == Ref::Kind::Register; }
};

struct Step {
  const Instruction* instruction = nullptr;
  const Directive* line = nullptr;       // the last .loc of no inlined function, or null
  std::vector<std::string_view> opcode;  // its parts
  std::vector<Argument> arguments;
  Ref predicate;  // a register if the instruction has one
};

struct FunctionCode {
  const Function* function = nullptr;
  std::vector<const Variable*> registers;  // the declaration of each
  std::vector<Step> steps;
};

// The functions of a module, each lowered when first asked for.
class ModuleCode {
 public:
  explicit ModuleCode(const Module& module);

  const Module& module() const { return module_; }
  // The definition, else a declaration, else null.
  const Function* find(std::string_view name) const;
  // REQUIRES: the function has a body.
  const FunctionCode& code_of(const Function& function);

 private:
  const Module& module_;
  std::unordered_map<std::string_view, const Function*> functions_;
  std::unordered_map<const Function*, std::unique_ptr<FunctionCode>> lowered_;
};

}  // namespace attacca::ptx
