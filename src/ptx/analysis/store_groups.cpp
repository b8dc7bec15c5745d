#include "ptx/analysis/store_groups.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "ptx/analysis/opcode_rules.hpp"

namespace attacca::ptx {
namespace {

// Arithmetic that depends on its operands alone.
constexpr std::array<std::string_view, 22> kPure = {
    "abs", "add", "and", "bfe", "bfi", "cvt",  "cvta", "lop3", "mad", "max", "min",
    "mov", "mul", "neg", "not", "or",  "prmt", "selp", "setp", "shl", "shr", "sub"};
// What ends a run. Behind griddepcontrol another kernel's results may be read.
constexpr std::array<std::string_view, 7> kJumps = {"bra",  "brx",  "call",          "ret",
                                                    "exit", "trap", "griddepcontrol"};

template <class Words>
bool is_listed(const Words& words, std::string_view word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

template <class Visit>
void visit_registers(const Argument& argument, Visit visit) {
  if (argument.ref.kind == Ref::Kind::Register) visit(argument.ref.index);
  for (const Ref& part : argument.parts)
    if (part.kind == Ref::Kind::Register) visit(part.index);
}

class Grouping {
 public:
  Grouping(const Module& module, const FunctionCode& code, size_t most_words)
      : code_(code), most_words_(most_words), runs_(code.steps.size()), scopes_(code.steps.size()) {
    const Span body = code.function->body->span;
    for (uint32_t i = body.begin; i < body.end; ++i) ++mentions_[module.tokens[i].text()];
    for (size_t i = 0; i < code.steps.size(); ++i) {
      const Step& step = code.steps[i];
      at_[step.instruction] = i;
      // Perhaps it only reads what stands first; taking it for a write does no harm.
      if (!step.arguments.empty() && step.arguments[0].form != Argument::Form::Address)
        visit_registers(step.arguments[0], [&](uint32_t index) { writes_[index].push_back(i); });
    }
    visit(*code.function->body);
  }

  StoreGroup next(const std::vector<WaitingStore>& stores, size_t first) {
    StoreGroup group;
    const size_t at = at_.at(stores[first].step->instruction);
    std::set<size_t> again;
    size_t words = 0;
    for (size_t i = first; i < stores.size(); ++i) {
      if (i > first && words + stores[i].words > most_words_) break;
      if (!is_computable(at, *stores[i].step, again)) break;
      words += stores[i].words;
      group.stores.push_back(stores[i].step);
    }
    group.before = &code_.steps[at];
    if (words <= most_words_ && runs_[at] != moved_run_) move_up(group, at, again);
    for (const size_t i : again) group.again.push_back(&code_.steps[i]);
    return group;
  }

 private:
  // Numbers the runs of instructions without a jump or a label between them.
  void visit(const Scope& scope) {
    for (const Statement& statement : scope.statements) {
      if (const auto* declaration = std::get_if<Declaration>(&statement.node))
        for (const Variable& variable : declaration->variables)
          if (variable.space != ".reg") locals_.insert(&variable);
      // Line information has labels to which nothing jumps.
      if (const auto* label = std::get_if<Label>(&statement.node))
        if (mentions_.at(label->name) > 1) ++run_;
      if (const auto* inner = std::get_if<Scope>(&statement.node)) visit(*inner);
      if (const auto* instruction = std::get_if<Instruction>(&statement.node)) {
        const size_t i = at_.at(instruction);
        runs_[i] = run_;
        scopes_[i] = &scope;
        if (is_listed(kJumps, code_.steps[i].opcode[0])) ++run_;
      }
    }
  }

  // Behind the last load from global memory in the run.
  void move_up(StoreGroup& group, size_t at, std::set<size_t>& again) {
    size_t to = at;
    while (to > 0 && runs_[to - 1] == runs_[at] && !is_global_load(code_.steps[to - 1])) --to;
    if (to == 0 || runs_[to - 1] != runs_[at]) return;
    if (to < at) {
      std::set<size_t> all;
      for (const Step* store : group.stores)
        if (!is_computable(to, *store, all)) return;
      group.before = &code_.steps[to];
      again = std::move(all);
    }
    moved_run_ = runs_[at];
  }

  static bool is_global_load(const Step& step) {
    return step.opcode[0] == "ld" && access_space(step.opcode) == "global";
  }

  // Whether the store's address and predicate can be computed in front of step `at`: adds the steps
  // that compute them.
  bool is_computable(size_t at, const Step& store, std::set<size_t>& again) const {
    const size_t i = at_.at(store.instruction);
    if (runs_[i] != runs_[at] || scopes_[i] != scopes_[at]) return false;
    std::set<size_t> steps = again;
    for (const Ref& ref : {store.arguments[0].ref, store.predicate})
      if (ref.kind == Ref::Kind::Register && !add_register(at, i, ref.index, steps)) return false;
    again = std::move(steps);
    return true;
  }

  // Of the value that the register has at step `until`.
  bool add_register(size_t at, size_t until, uint32_t index, std::set<size_t>& again) const {
    const auto writes = writes_.find(index);
    if (writes == writes_.end()) return true;
    const auto begin = std::ranges::lower_bound(writes->second, at);
    if (begin == writes->second.end()) return true;
    if (*begin >= until) return true;  // it still has the value of `at`
    if (begin + 1 != writes->second.end()) return false;
    const Step& step = code_.steps[*begin];
    if (!is_pure(step)) return false;
    if (!again.insert(*begin).second) return true;
    for (size_t k = 1; k < step.arguments.size(); ++k) {
      bool added = true;
      visit_registers(step.arguments[k], [&](uint32_t source) {
        added = added && add_register(at, *begin, source, again);
      });
      if (!added) return false;
    }
    return true;
  }

  // Whether the step can be repeated at another place.
  bool is_pure(const Step& step) const {
    if (step.instruction->predicate || !is_listed(kPure, step.opcode[0])) return false;
    if (has_part(step.opcode, "cc")) return false;  // it writes the carry flag, too
    return std::ranges::all_of(step.arguments,
                               [this](const Argument& argument) {
                                 return argument.form == Argument::Form::Value &&
                                        !locals_.contains(argument.ref.variable);
                               }) &&
           step.arguments[0].ref.kind == Ref::Kind::Register &&
           step.arguments[0].ref.variable->vector == 1;
  }

  const FunctionCode& code_;
  size_t most_words_;
  std::unordered_map<std::string_view, size_t> mentions_;  // of the words in the function
  std::unordered_map<const Instruction*, size_t> at_;
  std::unordered_map<uint32_t, std::vector<size_t>> writes_;  // of a register: the steps
  std::vector<size_t> runs_;                                  // of a step
  std::vector<const Scope*> scopes_;                          // of a step
  std::unordered_set<const Variable*> locals_;  // in memory, whose names hold in their scopes
  size_t run_ = 0;
  size_t moved_run_ = SIZE_MAX;  // the last whose operands wait from its loads on
};

}  // namespace

std::vector<StoreGroup> group_stores(const Module& module, const FunctionCode& code,
                                     const std::vector<WaitingStore>& stores, size_t most_words) {
  Grouping grouping(module, code, most_words);
  std::vector<StoreGroup> groups;
  for (size_t first = 0; first < stores.size(); first += groups.back().stores.size())
    groups.push_back(grouping.next(stores, first));
  return groups;
}

}  // namespace attacca::ptx
