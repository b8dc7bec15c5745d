#include "ptx/splice/splice.hpp"

#include <algorithm>
#include <unordered_map>

#include "fmt/format.h"

#include "ptx/splice/body.hpp"
#include "ptx/splice/carry.hpp"
#include "ptx/syntax/signature.hpp"

namespace attacca::ptx {
namespace {

// All functions of this name. Fails if there is none, or the name is not a function's.
Result<std::vector<const Function*>> find_functions(const Module& module, std::string_view name,
                                                    std::string_view fix) {
  std::vector<const Function*> found;
  for (const Item& item : module.items) {
    if (const auto* function = std::get_if<Function>(&item); function && function->name == name) {
      if (function->is_entry)
        return fail(fmt::format("'{}' is a kernel, not a function", name),
                    module.where(function->span), std::string(fix));
      found.push_back(function);
    }
    if (const auto* declaration = std::get_if<Declaration>(&item))
      for (const Variable& variable : declaration->variables)
        if (variable.name == name)
          return fail(fmt::format("'{}' is a {} variable, not a function", name, variable.space),
                      module.where(declaration->span), std::string(fix));
  }
  if (found.empty())
    return fail(fmt::format("there is no function '{}'", name), module.source.where(0),
                std::string(fix));
  return found;
}

Result<std::vector<const Function*>> find_hole(const Module& kernel, std::string_view name) {
  ATTACCA_TRY(auto declarations,
              find_functions(kernel, name, "declare it extern \"C\" __device__ and call it"));
  for (const Function* function : declarations)
    if (function->body)
      return fail(fmt::format("the kernel defines '{}' itself", name), kernel.where(function->span),
                  "only declare it");
  return declarations;
}

Result<const Function*> find_filling(const Module& epilogue, std::string_view name) {
  ATTACCA_TRY(const auto functions,
              find_functions(epilogue, name, "define it as extern \"C\" __device__"));
  for (const Function* function : functions)
    if (function->body) return function;
  return fail(fmt::format("'{}' is declared, but has no body", name),
              epilogue.where(functions.front()->span), "define it");
}

class Splicer {
 public:
  Splicer(const Module& kernel, const Function& hole, Body body, Renamer renamer,
          std::string slot_prefix)
      : kernel_(kernel),
        hole_(hole),
        body_(std::move(body)),
        renamer_(std::move(renamer)),
        slot_prefix_(std::move(slot_prefix)),
        edits_(kernel) {}

  Edits& edits() { return edits_; }
  size_t calls() const { return calls_; }

  Status fill(const Function& function) {
    ATTACCA_TRY(const ParamUses uses, find_param_uses(kernel_, function, hole_.name));
    if (uses.calls.empty()) return {};
    ATTACCA_TRY(const SlotMap slots, make_slots(uses));
    edits_.insert_after(function.body->span.begin, body_.local_declarations(renamer_));
    ATTACCA_TRY_VOID(replace_declarations(uses, slots));
    replace_moves(uses, slots);
    replace_calls(uses, slots);
    apply_pending();
    calls_ += uses.calls.size();
    return {};
  }

  // A remaining use takes the hole's address.
  Status check_nothing_left() const {
    for (uint32_t i = 0; i < kernel_.tokens.size(); ++i)
      if (kernel_.tokens[i].kind == TokenKind::Word && kernel_.tokens[i].text() == hole_.name &&
          !edits_.covers(i))
        return fail(fmt::format("'{}' is used other than by a direct call", hole_.name),
                    kernel_.source.where(kernel_.tokens[i].text()), "call it directly");
    return {};
  }

 private:
  using SlotMap = std::unordered_map<const Variable*, Slots>;

  Result<SlotMap> make_slots(const ParamUses& uses) const {
    SlotMap slots;
    for (const ParamCall& call : uses.calls) {
      ATTACCA_TRY_VOID(check_call(call, uses));
      for (const auto* variables : {&call.results, &call.arguments})
        for (const Variable* variable : *variables)
          slots.emplace(variable, Slots(fmt::format("%{}{}_", slot_prefix_, plain(*variable))));
      for (size_t i = 0; i < call.results.size(); ++i)
        for (const ParamAccess* write : body_.result_writes(i))
          ATTACCA_TRY_VOID(place(slots.at(call.results[i]).add_write(*write), *call.call));
    }
    for (const ParamUse& use : uses.uses)
      if (const auto found = slots.find(use.variable); found != slots.end() && use.is_store)
        for (const ParamAccess& write : use.accesses)
          ATTACCA_TRY_VOID(place(found->second.add_write(write), *use.instruction));
    return slots;
  }

  static std::string_view plain(const Variable& variable) {
    return variable.name.substr(variable.name.starts_with('%') ? 1 : 0);
  }

  Status place(Status status, const Instruction& instruction) const {
    if (status) return status;
    return fail(status.error().what, kernel_.where(instruction.span),
                "write a parameter in equal pieces everywhere");
  }

  Status check_call(const ParamCall& call, const ParamUses& uses) const {
    const auto fail_here = [&](std::string what) {
      return fail(fmt::format("this call of '{}' {}", hole_.name, what),
                  kernel_.where(call.call->span), "call it as nvcc, NVRTC and clang do");
    };
    if (call.results.size() != hole_.results.size() ||
        call.arguments.size() != hole_.parameters.size())
      return fail_here("does not match its declaration");
    std::vector<const Variable*> all = call.results;
    all.insert(all.end(), call.arguments.begin(), call.arguments.end());
    for (size_t i = 0; i < all.size(); ++i) {
      const bool is_result = i < hole_.results.size();
      const Variable& formal =
          is_result ? hole_.results[i] : hole_.parameters[i - hole_.results.size()];
      if (size_in_bytes(*all[i]) != size_in_bytes(formal))
        return fail_here(fmt::format("passes {}, which has another size", all[i]->name));
      if (uses.escapes.contains(all[i]))
        return fail_here(fmt::format("passes {}, which has other uses, too", all[i]->name));
    }
    std::sort(all.begin(), all.end());
    if (std::adjacent_find(all.begin(), all.end()) != all.end())
      return fail_here("passes one variable twice");
    return {};
  }

  Status replace_declarations(const ParamUses& uses, const SlotMap& slots) {
    size_t replaced = 0;
    for (const Declaration* declaration : uses.declarations) {
      std::string text;
      size_t count = 0;
      for (const Variable& variable : declaration->variables)
        if (const auto found = slots.find(&variable); found != slots.end()) {
          text += fmt::format("{}{}", count++ == 0 ? "" : "\n\t", found->second.declare());
        }
      if (count == 0) continue;
      if (count != declaration->variables.size())
        return fail("one declaration serves a call of the hole and another one",
                    kernel_.where(declaration->span), "declare the .param variables apart");
      pending_.emplace_back(declaration->span, std::move(text));
      replaced += count;
    }
    if (replaced == slots.size()) return {};
    return fail(fmt::format("a function passes its own parameter on to '{}'", hole_.name),
                kernel_.where(uses.calls.front().call->span), "copy it with ld.param and st.param");
  }

  void replace_moves(const ParamUses& uses, const SlotMap& slots) {
    for (const ParamUse& use : uses.uses) {
      const auto found = slots.find(use.variable);
      if (found == slots.end()) continue;
      const std::string guard = guard_text(use.instruction->predicate);
      std::string text;
      for (const ParamAccess& access : use.accesses)
        text += fmt::format("{}{}", text.empty() ? "" : "\n\t",
                            use.is_store ? found->second.store(access, guard, access.text)
                                         : found->second.load(access, guard, access.text));
      pending_.emplace_back(use.instruction->span, std::move(text));
    }
  }

  void replace_calls(const ParamUses& uses, const SlotMap& slots) {
    for (const ParamCall& call : uses.calls) {
      CallSlots of_call;
      for (const Variable* result : call.results) of_call.results.push_back(&slots.at(result));
      for (const Variable* argument : call.arguments)
        of_call.arguments.push_back(&slots.at(argument));
      const std::string skip = guard_text(call.call->predicate, true);
      // Calls whose slots are named alike get the same text.
      std::string slot_names = skip;
      for (const auto* all : {&of_call.results, &of_call.arguments})
        for (const Slots* own : *all) slot_names += own->declare() + "|";
      std::string& text = bodies_[slot_names];
      if (text.empty()) text = body_.write(of_call, skip, slot_prefix_ + "end", renamer_);
      pending_.emplace_back(call.call->span, text);
    }
  }

  // In the order of the text: edits in this order are fast.
  void apply_pending() {
    std::stable_sort(pending_.begin(), pending_.end(),
                     [](const auto& a, const auto& b) { return a.first.begin < b.first.begin; });
    for (auto& [span, text] : pending_) edits_.replace(span, std::move(text));
    pending_.clear();
  }

  const Module& kernel_;
  const Function& hole_;
  Body body_;
  Renamer renamer_;
  std::string slot_prefix_;
  Edits edits_;
  std::vector<std::pair<Span, std::string>> pending_;    // replacements of one function
  std::unordered_map<std::string, std::string> bodies_;  // by the slots that they use
  size_t calls_ = 0;
};

}  // namespace

Result<Spliced> splice(const Module& kernel, const Module& epilogue, std::string_view hole_name) {
  ATTACCA_TRY(const auto holes, find_hole(kernel, hole_name));
  ATTACCA_TRY(const Function* filling, find_filling(epilogue, hole_name));
  const Function& hole = *holes.front();
  ATTACCA_TRY(const std::string version, common_version(kernel, epilogue));
  ATTACCA_TRY_VOID(check_signatures(kernel, hole, epilogue, *filling));

  Renamer renamer(fresh_prefix("fill", kernel, epilogue));
  ATTACCA_TRY(const auto carried, reachable_items(epilogue, *filling));
  add_names(carried, renamer);
  ATTACCA_TRY(const std::string carried_ptx, carried_text(epilogue, carried, renamer, kernel));
  ATTACCA_TRY(Body body, Body::prepare(epilogue, *filling, renamer));

  Splicer splicer(kernel, hole, std::move(body), std::move(renamer),
                  fresh_prefix("slot", kernel, epilogue));
  const Directive& version_line = *kernel.find_directive(".version");
  splicer.edits().replace(version_line.span, fmt::format(".version {}", version));
  for (const Function* declaration : holes)
    splicer.edits().replace(declaration->span, declaration == &hole ? carried_ptx : "");
  for (const Item& item : kernel.items)
    if (const auto* function = std::get_if<Function>(&item); function && function->body)
      ATTACCA_TRY_VOID(splicer.fill(*function));
  ATTACCA_TRY_VOID(splicer.check_nothing_left());
  if (splicer.calls() == 0)
    return fail(fmt::format("the kernel declares '{}' and never calls it", hole_name),
                kernel.where(hole.span), "call it where the epilogue belongs");
  return Spliced{splicer.edits().apply(), splicer.calls()};
}

}  // namespace attacca::ptx
