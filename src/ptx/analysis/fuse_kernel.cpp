// The stores become calls of the tail, which the module then lacks: a hole, for splice.hpp to fill.
#include "ptx/analysis/fuse_kernel.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "fmt/format.h"

#include "ptx/analysis/static_variables.hpp"
#include "ptx/analysis/store_groups.hpp"
#include "ptx/analysis/store_text.hpp"
#include "ptx/splice/body.hpp"
#include "ptx/splice/splice.hpp"
#include "ptx/syntax/cursor.hpp"
#include "ptx/syntax/edits.hpp"
#include "ptx/syntax/names.hpp"
#include "support/check.hpp"

namespace attacca::ptx {
namespace {

constexpr size_t kWidestLoad = 16;  // bytes, of an operand

// Those that store to the output, directly or not, without the kernel itself.
std::set<size_t> copied_bodies(const Analysis& analysis) {
  std::set<size_t> bodies;
  for (const StoreSite& store : analysis.stores) bodies.insert(store.body);
  for (size_t i = 0; i < analysis.bodies.size(); ++i)
    if (!analysis.bodies[i].calls.empty()) bodies.insert(i);
  bodies.erase(0);
  return bodies;
}

class Fuser {
 public:
  Fuser(const Module& module, const Analysis& analysis, TailNames names, const StoreTail& tail)
      : module_(module), analysis_(analysis), names_(std::move(names)), tail_(tail), code_(module) {
    for (const StoreSite& store : analysis.stores) stores_[store.body].push_back(store.instruction);
  }

  // The tail functions that the stores call, with their declarations.
  std::map<std::string, std::string> tails() const {
    std::map<std::string, std::string> called;
    for (const StoreSite& store : analysis_.stores)
      called.merge(
          tail_declarations(names_, elements_of(*store.instruction, analysis_.element_bytes)));
    return called;
  }

  // The module with calls of the tail instead of stores.
  std::string run() {
    Edits edits(module_);
    const Function& entry = *analysis_.bodies[0].function;
    std::vector<std::pair<Span, std::string>> all = edits_of_body(0);
    all.emplace_back(after(last_parameter_token(entry)), entry_parameters());
    if (tail_.threads != 0 && most_threads(module_, entry) == 0)
      all.emplace_back(after(last_parameter_token(entry) + 1),
                       fmt::format("\n.maxntid {}, 1, 1", tail_.threads));
    if (tail_.blocks != 0 && !says_blocks(module_, entry))
      all.emplace_back(after(last_parameter_token(entry) + 1),
                       fmt::format("\n.minnctapersm {}", tail_.blocks));
    for (const auto& [function, text] : clones())
      all.emplace_back(after(function->span.end - 1), text);
    std::string declarations;
    for (const auto& [function, declaration] : tails()) declarations += "\n\n" + declaration;
    all.emplace_back(after(first_function() - 1), declarations + clone_declarations());
    apply(std::move(all), edits);
    return edits.apply();
  }

 private:
  using Replacements = std::vector<std::pair<Span, std::string>>;

  static Span after(uint32_t token) { return {token + 1, token + 1}; }

  static void apply(Replacements all, Edits& edits) {
    std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) {
      return std::pair(a.first.begin, a.first.end) < std::pair(b.first.begin, b.first.end);
    });
    for (auto& [span, text] : all) edits.replace(span, std::move(text));
  }

  uint32_t first_function() const {
    for (const Item& item : module_.items)
      if (const auto* function = std::get_if<Function>(&item)) return function->span.begin;
    ATTACCA_CHECK(false, "a module without the kernel");
  }

  // ---- Parameters

  // A parameter may have the function's name, too.
  uint32_t name_token(const Function& function) const {
    uint32_t i = function.span.begin;
    while (module_.tokens[i].data != function.name.data()) ++i;
    return i;
  }

  // The ')' of the first list behind a token.
  uint32_t end_of_list(uint32_t token) const {
    for (int depth = 0;; ++token) {
      if (module_.tokens[token].is('(')) ++depth;
      if (module_.tokens[token].is(')') && --depth == 0) return token;
    }
  }

  uint32_t last_parameter_token(const Function& function) const {
    return end_of_list(name_token(function)) - 1;
  }

  std::string entry_parameters() const {
    std::string text;
    for (size_t i = 0; i < names_.operands; ++i)
      text += fmt::format(",\n\t.param .u64 {}", names_.parameter(i));
    return text;
  }

  std::string clone_parameters() const {
    std::string text = fmt::format(",\n\t.param .b64 {}", names_.base_parameter());
    for (size_t i = 0; i < names_.operands; ++i)
      text += fmt::format(",\n\t.param .b64 {}", names_.parameter(i));
    return text;
  }

  // Loads all that the stores need, in front of the body.
  std::string prologue(size_t body) const {
    const Variable& output = analysis_.bodies[0].function->parameters[analysis_.parameter];
    std::string text = fmt::format("\n\t.reg .b64 {};", names_.base());
    text += body == 0
                ? fmt::format("\n\tld.param.b64 {}, [{}+{}];", names_.base(), output.name,
                              analysis_.offset)
                : fmt::format("\n\tld.param.b64 {}, [{}];", names_.base(), names_.base_parameter());
    for (size_t i = 0; i < names_.operands; ++i)
      text += fmt::format("\n\t.reg .b64 {0};\n\tld.param.b64 {0}, [{1}];", names_.operand(i),
                          names_.parameter(i));
    return text + alignment_text();
  }

  size_t widest_access() const {
    size_t bytes = kWidestLoad;
    for (const StoreSite& store : analysis_.stores)
      bytes = std::max(bytes, analysis_.element_bytes *
                                  elements_of(*store.instruction, analysis_.element_bytes));
    return bytes;
  }

  // Whether the output or an operand that is read by vectors lies between them.
  std::string alignment_text() const {
    if (std::ranges::none_of(names_.packs, [](const auto& pack) { return pack.second.is_wide; }))
      return {};
    const std::string bits = fmt::format("%{}bits", names_.prefix);
    std::string text = fmt::format("\n\t.reg .pred {};\n\t{{\n\t.reg .b64 {};\n\tmov.b64 {}, {};",
                                   names_.apart(), bits, bits, names_.base());
    for (const size_t i : tail_.wide_operands)
      text += fmt::format("\n\tor.b64 {0}, {0}, {1};", bits, names_.operand(i));
    return text + fmt::format("\n\tand.b64 {0}, {0}, {1};\n\tsetp.ne.u64 {2}, {0}, 0;\n\t}}", bits,
                              widest_access() - 1, names_.apart());
  }

  // ---- Bodies

  Replacements edits_of_body(size_t body) {
    const Function& function = *analysis_.bodies[body].function;
    Replacements all;
    all.emplace_back(after(function.body->span.begin), prologue(body));
    for (auto& edit : edits_of_stores(body)) all.push_back(std::move(edit));
    for (const AnalysedBody::Call& call : analysis_.bodies[body].calls)
      all.emplace_back(call.instruction->span, call_text(call));
    return all;
  }

  const StorePack* pack_of(const Step& store) const {
    return names_.pack(elements_of(*store.instruction, analysis_.element_bytes));
  }

  std::vector<WaitingStore> waiting_stores(size_t body) {
    std::vector<WaitingStore> waiting;
    const auto found = stores_.find(body);
    if (found == stores_.end()) return waiting;
    const std::unordered_set<const Instruction*> stores(found->second.begin(), found->second.end());
    for (const Step& step : code_.code_of(*analysis_.bodies[body].function).steps)
      if (stores.contains(step.instruction)) {
        const StorePack* pack = pack_of(step);
        waiting.push_back({&step, pack ? pack->words : 0});
      }
    return waiting;
  }

  Replacements edits_of_stores(size_t body) {
    const Function& function = *analysis_.bodies[body].function;
    const std::vector<WaitingStore> waiting = waiting_stores(body);
    StoreNumbers numbers;
    std::string registers;
    for (const WaitingStore& store : waiting) {
      if (store.words > 0)
        registers +=
            fmt::format("\n\t.reg .b32 {}<{}>;", names_.fetched(numbers.size()), store.words);
      numbers.emplace(store.step, numbers.size());
    }
    Replacements all;
    all.emplace_back(after(function.body->span.begin), registers);
    std::unordered_map<const Step*, std::string> fetches;
    for (const StoreGroup& group :
         group_stores(module_, code_.code_of(function), waiting, tail_.waiting_words))
      if (std::string text = fetch_text(module_, group, numbers, names_); !text.empty())
        fetches[group.before] += text;
    for (const WaitingStore& store : waiting) {
      std::string text = store_text(module_, *store.step, numbers.at(store.step), names_);
      if (const auto fetch = fetches.find(store.step); fetch != fetches.end()) {
        text = fetch->second + text;
        fetches.erase(fetch);
      }
      all.emplace_back(store.step->instruction->span, std::move(text));
    }
    for (const auto& [step, text] : fetches)
      all.emplace_back(after(step->instruction->span.begin - 1), "\n\t" + text);
    return all;
  }

  // The call of a clone, which takes the output's address and the operands', too.
  std::string call_text(const AnalysedBody::Call& call) const {
    std::string text = "{", results, arguments;
    bool named = false;
    for (const Operand& operand : call.instruction->operands) {
      const std::string_view words = module_.text(operand.span);
      if (std::holds_alternative<Name>(operand.form)) named = true;
      if (!std::holds_alternative<Tuple>(operand.form)) continue;
      if (named)
        arguments = words.substr(1, words.size() - 2);
      else
        results = fmt::format("{}, ", words);
    }
    for (size_t i = 0; i <= names_.operands; ++i) {
      const std::string variable = fmt::format("{}pass{}", names_.prefix, i);
      text += fmt::format("\n\t.param .b64 {0};\n\tst.param.b64 [{0}], {1};", variable,
                          i == 0 ? names_.base() : names_.operand(i - 1));
      arguments += fmt::format(", {}", variable);
    }
    const std::string clone = names_.clone(analysis_.bodies[call.body].function->name, call.body);
    return text + fmt::format("\n\t{}{} {}{}, ({});\n\t}}", guard_text(call.instruction->predicate),
                              call.instruction->opcode, results, clone, arguments);
  }

  // ---- Copies of functions

  Replacements header_edits(size_t body) const {
    const Function& function = *analysis_.bodies[body].function;
    Replacements all;
    if (!function.linkage.empty())
      all.emplace_back(Span{function.span.begin, function.span.begin + 1}, "");
    const uint32_t name = name_token(function);
    for (uint32_t i = function.span.begin; i < name; ++i)
      if (module_.tokens[i].is_directive(".attribute"))  // .unified: an identity of its own
        all.emplace_back(Span{i, end_of_list(i) + 1}, "");
    all.emplace_back(Span{name, name + 1}, names_.clone(function.name, body));
    all.emplace_back(after(last_parameter_token(function)), clone_parameters());
    return all;
  }

  std::string clone_declarations() const {
    std::string text;
    for (const size_t body : copied_bodies(analysis_)) {
      const Function& function = *analysis_.bodies[body].function;
      Edits edits(module_);
      apply(header_edits(body), edits);
      text +=
          fmt::format("\n\n{};", edits.apply(Span{function.span.begin, function.body->span.begin}));
    }
    return text;
  }

  // Each behind the function that it is made of.
  std::vector<std::pair<const Function*, std::string>> clones() {
    std::vector<std::pair<const Function*, std::string>> texts;
    for (const size_t body : copied_bodies(analysis_)) {
      const Function& function = *analysis_.bodies[body].function;
      Replacements all = edits_of_body(body);
      for (auto& edit : header_edits(body)) all.push_back(std::move(edit));
      Edits edits(module_);
      apply(std::move(all), edits);
      std::string text = "\n\n" + edits.apply(function.span);
      const auto same = std::find_if(texts.begin(), texts.end(),
                                     [&](const auto& other) { return other.first == &function; });
      if (same == texts.end())
        texts.emplace_back(&function, std::move(text));
      else
        same->second += text;
    }
    return texts;
  }

  const Module& module_;
  const Analysis& analysis_;
  TailNames names_;
  const StoreTail& tail_;
  ModuleCode code_;
  std::unordered_map<size_t, std::vector<const Instruction*>> stores_;
};

// The module with the static variables of functions that will be copied outside of them. nullopt:
// there are none.
std::optional<std::string> with_static_variables_outside(const Module& module,
                                                         const Analysis& analysis,
                                                         const Module& epilogue) {
  std::set<const Function*> copied;
  for (const size_t body : copied_bodies(analysis)) copied.insert(analysis.bodies[body].function);
  if (copied.empty()) return std::nullopt;
  return move_static_variables_out(module, copied, fresh_prefix("static", module, epilogue));
}

bool mentions(const Module& module, std::string_view word) {
  return std::any_of(module.tokens.begin(), module.tokens.end(), [word](const Token& token) {
    return token.kind == TokenKind::Word && token.text() == word;
  });
}

}  // namespace

uint32_t most_threads(const Module& module, const Function& kernel) {
  const Span span = kernel.attributes;
  for (uint32_t i = span.begin; i < span.end; ++i) {
    if (!module.tokens[i].is_directive(".maxntid") && !module.tokens[i].is_directive(".reqntid"))
      continue;
    uint64_t threads = 1;
    for (++i; i < span.end; i += 2) {
      threads *= to_integer(module.tokens[i].text()).value_or(1);
      if (i + 1 == span.end || !module.tokens[i + 1].is(',')) break;
    }
    return static_cast<uint32_t>(threads);
  }
  return 0;
}

bool says_blocks(const Module& module, const Function& kernel) {
  for (uint32_t i = kernel.attributes.begin; i < kernel.attributes.end; ++i)
    if (module.tokens[i].is_directive(".minnctapersm") || module.tokens[i].is_directive(".maxnreg"))
      return true;
  return false;
}

std::set<size_t> elements_of_stores(const Analysis& analysis) {
  std::set<size_t> numbers;
  for (const StoreSite& store : analysis.stores)
    numbers.insert(elements_of(*store.instruction, analysis.element_bytes));
  return numbers;
}

Result<FusedKernel> fuse_stores(const Module& module, const Analysis& analysis,
                                const Module& epilogue, const StoreTail& tail) {
  ATTACCA_CHECK(analysis.eligible() && !analysis.bodies.empty(), "an ineligible kernel");
  if (auto moved = with_static_variables_outside(module, analysis, epilogue)) {
    ATTACCA_TRY(const Module outside, parse(*std::move(moved), "the kernel with moved variables"));
    ATTACCA_TRY(const Analysis same,
                analyse_output(outside, analysis.bodies[0].function->name,
                               {std::to_string(analysis.parameter), analysis.offset},
                               analysis.element_bytes));
    return fuse_stores(outside, same, epilogue, tail);
  }
  const TailNames names{fresh_prefix("tail", module, epilogue), tail.function, tail.operands.size(),
                        analysis.element_bytes, tail.packs};
  Fuser fuser(module, analysis, names, tail);
  const std::map<std::string, std::string> tails = fuser.tails();
  for (const auto& [function, declaration] : tails)
    if (mentions(module, function))
      return fail(fmt::format("the kernel's file uses the name '{}' itself", function),
                  module.source.where(0), "give it another name");
  std::string ptx = fuser.run();
  for (const auto& [function, declaration] : tails) {
    ATTACCA_TRY(const Module kernel, parse(std::move(ptx), "the kernel with its tail's calls"));
    ATTACCA_TRY(Spliced spliced, splice(kernel, epilogue, function));
    ptx = std::move(spliced.ptx);
  }
  FusedKernel fused;
  fused.ptx = std::move(ptx);
  fused.stores = analysis.stores.size();
  const size_t own = analysis.bodies[0].function->parameters.size();
  for (size_t i = 0; i < tail.operands.size(); ++i)
    fused.appended.push_back({tail.operands[i], names.parameter(i), own + i});
  return fused;
}

}  // namespace attacca::ptx
