// The text of the epilogue's function that replaces a call.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ptx/splice/param_uses.hpp"
#include "ptx/splice/slots.hpp"
#include "ptx/syntax/names.hpp"
#include "ptx/syntax/syntax.hpp"

namespace attacca::ptx {

// The slots of one call for its results and arguments, in order.
struct CallSlots {
  std::vector<const Slots*> results;
  std::vector<const Slots*> arguments;
};

class Body {
 public:
  // Checks that the function can be inlined, and adds its names to the renamer.
  // REQUIRES: the function has a body; both outlive this.
  static Result<Body> prepare(const Module& module, const Function& function, Renamer& renamer);

  // The writes of result number i.
  std::vector<const ParamAccess*> result_writes(size_t i) const;
  // .local arrays, renamed. A function declares them once for all copies of the body in it.
  std::string local_declarations(const Renamer& renamer) const;
  // The body in its own scope. `skip` is "@!%p1 " of a call under @%p1, or empty.
  std::string write(const CallSlots& slots, std::string_view skip, std::string_view end_label,
                    const Renamer& renamer) const;

 private:
  Body(const Module& module, const Function& function) : module_(&module), function_(&function) {}

  Status collect(const Scope& scope, Renamer& renamer);
  Status collect(const Declaration& declaration, Renamer& renamer);
  Status check_parameters() const;
  const Slots* slots_of(const Variable& formal, const CallSlots& slots) const;
  std::string replacement(const ParamUse& use, const Slots& slots, const Renamer& renamer) const;
  bool is_last(const Instruction& ret) const;

  const Module* module_;
  const Function* function_;
  ParamUses params_;
  std::vector<const Instruction*> returns_;
  std::vector<const Declaration*> locals_;
};

// "@%p1 ", "@!%p1 " or empty.
std::string guard_text(const std::optional<Predicate>& predicate, bool inverted = false);

}  // namespace attacca::ptx
