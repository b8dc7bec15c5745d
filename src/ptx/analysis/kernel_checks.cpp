#include "ptx/analysis/kernel_checks.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "fmt/format.h"

#include "ptx/analysis/opcode_rules.hpp"
#include "ptx/analysis/source_lines.hpp"
#include "ptx/analysis/store_obstacle.hpp"
#include "ptx/syntax/cursor.hpp"

namespace attacca::ptx {
namespace {

using Kind = Origin::Kind;

constexpr uint32_t kTensorMapBytes = 128;

// Goes over the solved flow once and collects what the kernel does with its pointers.
class Checker {
 public:
  Checker(const Module& module, const Function& entry, const Dataflow& flow, Analysis& analysis)
      : module_(module), entry_(entry), flow_(flow), lines_(module), analysis_(analysis) {}

  void run() {
    for (size_t i = 0; i < entry_.parameters.size(); ++i)
      if (entry_.parameters[i].is_pointer)
        use_of(Origin{Kind::Parameter, true, static_cast<uint32_t>(i), 0});
    use_of(Origin{Kind::Output});
    check_body(0);
    // A pointer that is never dereferenced is a number.
    for (auto& [key, use] : uses_)
      if (use.read || use.written || use.atomics || use.is_output ||
          entry_.parameters[use.parameter].is_pointer)
        analysis_.uses.push_back(std::move(use));
    keep_storing_bodies();
    if (analysis_.eligible() && analysis_.stores.empty())
      analysis_.reasons.push_back(
          {"never-stored", "it stores nothing through its output", module_.where(entry_.span)});
  }

 private:
  // ---- Bodies and calls

  // Its index in Analysis::bodies.
  size_t check_body(size_t flow_index) {
    const auto [known, fresh] = numbers_.try_emplace(flow_index, analysis_.bodies.size());
    if (!fresh) return known->second;
    const size_t number = known->second;
    const FlowBody& body = *flow_.bodies()[flow_index];
    analysis_.bodies.push_back({body.code->function, {}});
    for (const Step& step : body.code->steps) check_step(number, body, step);
    return number;
  }

  void check_step(size_t number, const FlowBody& body, const Step& step) {
    if (step.opcode[0] == "call") return check_call(number, body, step);
    const bool accesses = std::any_of(
        step.arguments.begin(), step.arguments.end(),
        [](const Argument& argument) { return argument.form == Argument::Form::Address; });
    if (!accesses) return check_computation(body, step);
    const MemoryRule* rule = memory_rule(step.instruction->opcode);
    const std::string_view space = access_space(step.opcode);
    if (space == "param" && (step.opcode[0] == "ld" || step.opcode[0] == "st"))
      return check_parameter_access(body, step);
    for (size_t i = 0; i < step.arguments.size(); ++i) {
      const Argument& argument = step.arguments[i];
      if (argument.form == Argument::Form::Address)
        check_address(number, body, step, rule, i);
      else if (const Provenance value = flow_.value(body, argument);
               !(i == 0 && is_destination(step)))
        check_data(value, step);
    }
  }

  static bool is_destination(const Step& step) {
    return step.arguments[0].form != Argument::Form::Address;
  }

  void check_call(size_t number, const FlowBody& body, const Step& step) {
    const CallShape shape = call_shape(step);
    for (const std::vector<Ref>* passed : {&shape.arguments, &shape.results})
      for (const Ref& each : *passed)
        if (each.kind == Ref::Kind::Register)
          return refuse(
              "register-call",
              fmt::format("it calls '{}' with the register {}, not with a .param variable",
                          shape.callee.text, each.text),
              step);
    if (const auto callee = Dataflow::callee_of(body, step)) {
      const size_t index = check_body(*callee);
      analysis_.bodies[number].calls.push_back({step.instruction, index});
      return;
    }
    const bool direct =
        shape.callee.kind == Ref::Kind::Function || shape.callee.kind == Ref::Kind::Special;
    if (direct && is_harmless_call(shape.callee.text)) {
      for (const Ref& argument : shape.arguments)
        for (const auto& [cell, value] : body.cells)
          if (cell.first == argument.variable) check_data(value, step);
      return;
    }
    if (!direct) return refuse("indirect-call", "it calls a function through a pointer", step);
    if (defines(shape.callee.text))
      return refuse("recursion",
                    fmt::format("'{}' calls itself, or too many functions", shape.callee.text),
                    step);
    refuse("external-call",
           fmt::format("it calls '{}', which the file does not define", shape.callee.text), step);
  }

  bool defines(std::string_view name) const {
    for (const Item& item : module_.items)
      if (const auto* function = std::get_if<Function>(&item))
        if (function->name == name && function->body) return true;
    return false;
  }

  // Leaves out the calls of functions that store nothing to the output.
  void keep_storing_bodies() {
    std::vector<bool> stores(analysis_.bodies.size(), false);
    for (const StoreSite& store : analysis_.stores) stores[store.body] = true;
    for (size_t round = 0; round < stores.size(); ++round)
      for (size_t i = 0; i < stores.size(); ++i)
        for (const AnalysedBody::Call& call : analysis_.bodies[i].calls)
          if (stores[call.body]) stores[i] = true;
    for (AnalysedBody& body : analysis_.bodies)
      std::erase_if(body.calls, [&](const AnalysedBody::Call& call) { return !stores[call.body]; });
  }

  // ---- Memory

  void check_parameter_access(const FlowBody& body, const Step& step) {
    const bool stores = step.opcode[0] == "st";
    for (size_t i = 0; i < step.arguments.size(); ++i) {
      const Argument& argument = step.arguments[i];
      if (argument.form == Argument::Form::Address) {
        check_parameter_read(body, step, argument);
        if (stores && !is_passed_on(argument))
          refuse("parameter", "it writes a parameter of the kernel", step);
        continue;
      }
      const bool is_source = stores || i > 0;
      const bool follows = access_bits(step.opcode) == 64 && Dataflow::cell_of(step.arguments[0]);
      if (is_source && !(stores && follows)) check_data(flow_.value(body, argument), step);
    }
  }

  // Other accesses of a parameter than within it, and other reads of the output's pointer than of 8
  // bytes at its place.
  void check_parameter_read(const FlowBody& body, const Step& step, const Argument& address) {
    const uint32_t bytes = access_bytes(step);
    if (is_passed_on(address)) {
      check_within(*address.ref.variable, address.offset, bytes, step);
      const auto begin = static_cast<uint64_t>(address.offset);
      for (const auto& [known, value] : body.cells)
        if (known.first == address.ref.variable && value.has(Kind::Output) &&
            cuts(begin, bytes, step, known.second))
          refuse("split", "it takes the output's address apart", step);
      return;
    }
    const Provenance base = flow_.value(body, address);
    if (access_space(step.opcode) == "param" && !is_parameter_address(base))
      return refuse("parameter", "it accesses parameters at an address that is not one parameter's",
                    step);
    for (const Origin& origin : base.origins()) {
      if (origin.kind != Kind::Space) continue;
      if (origin.parameter != Origin::kNoParameter && origin.offset != Origin::kAnyOffset)
        check_within(entry_.parameters[origin.parameter], origin.offset, bytes, step);
      if (origin.parameter != analysis_.parameter) continue;
      if (origin.offset == Origin::kAnyOffset)
        refuse("indexed-parameter",
               "it indexes the parameter that holds the output's address at run time", step);
      else if (cuts(static_cast<uint64_t>(origin.offset), bytes, step, analysis_.offset))
        refuse("split", "it takes the output's address apart", step);
    }
  }

  // A .param variable of a function, or of a call.
  bool is_passed_on(const Argument& address) const {
    return address.ref.kind == Ref::Kind::Variable && address.ref.variable->space == ".param" &&
           !flow_.entry_parameter(address.ref.variable);
  }

  static bool is_parameter_address(const Provenance& base) {
    return !base.empty() && std::ranges::all_of(base.origins(), [](const Origin& origin) {
      return origin.kind == Kind::Space;
    });
  }

  // By the opcode, and by the registers that it names.
  static uint32_t access_bytes(const Step& step) {
    size_t count = access_count(step.opcode);
    for (const Argument& argument : step.arguments)
      if (argument.form == Argument::Form::Tuple) count = std::max(count, argument.parts.size());
    return access_bits(step.opcode) / 8 * static_cast<uint32_t>(count);
  }

  // Beyond a parameter's end is the next parameter, which may be the output's pointer.
  void check_within(const Variable& parameter, int64_t offset, uint32_t bytes, const Step& step) {
    const auto size = static_cast<int64_t>(size_in_bytes(parameter).value_or(0));
    if (bytes == 0)
      return refuse("parameter",
                    fmt::format("it accesses a parameter by {}", step.instruction->opcode), step);
    if (offset < 0 || offset > size - int64_t{bytes})
      return refuse("parameter",
                    fmt::format("it accesses {} bytes at offset {} of parameter {}, which has {}",
                                bytes, offset, parameter.name, size),
                    step);
    if (offset % bytes != 0)
      refuse("parameter",
             fmt::format("it accesses {} bytes at offset {} of parameter {}, which is no multiple",
                         bytes, offset, parameter.name),
             step);
  }

  // Whether an access of so many bytes touches the pointer other than as 8 whole bytes.
  static bool cuts(uint64_t begin, uint32_t bytes, const Step& step, uint64_t pointer) {
    if (begin >= pointer + kPointerBytes || pointer >= begin + bytes) return false;
    return access_bits(step.opcode) != 64 || (pointer - begin) % kPointerBytes != 0;
  }

  void check_address(size_t number, const FlowBody& body, const Step& step, const MemoryRule* rule,
                     size_t argument) {
    const Argument& address = step.arguments[argument];
    const Provenance base = flow_.value(body, address);
    const Effect effect = effect_on(rule, argument, step);
    for (const Ref& part : address.parts) {
      check_data(flow_.value(body, part), step);
    }
    note_use(base, rule, effect);
    if (rule && rule->opcode == "ld")
      check_parameter_read(body, step, address);
    else if (effect != Effect::Hint)
      check_space(base, step, rule);
    if (base.has(Kind::Output)) return check_output_access(number, base, step, rule, effect);
    if (effect != Effect::Hint && reaches_global(step, address)) check_known(base, step);
  }

  // A transfer writes to its first address.
  static Effect effect_on(const MemoryRule* rule, size_t argument, const Step& step) {
    if (!rule) return Effect::Transfer;
    if (rule->effect != Effect::Transfer) return rule->effect;
    const bool is_first = std::none_of(
        step.arguments.begin(), step.arguments.begin() + static_cast<ptrdiff_t>(argument),
        [](const Argument& a) { return a.form == Argument::Form::Address; });
    return is_first ? Effect::Transfer : Effect::Read;
  }

  // Addresses of 32 bits are of shared or local memory.
  static bool reaches_global(const Step& step, const Argument& address) {
    const std::string_view space = access_space(step.opcode);
    const MemoryRule* rule = memory_rule(step.instruction->opcode);
    const bool one_space = rule && rule->effect != Effect::Transfer;
    if (one_space && !space.empty() && space != "global") return false;
    return address.ref.kind != Ref::Kind::Register || type_bits(address.ref.variable->type) == 64;
  }

  void check_known(const Provenance& base, const Step& step) {
    for (const Origin& origin : base.origins())
      if (origin.kind == Kind::Unknown)
        return refuse("unknown-address",
                      "it accesses memory at an address that it loads from memory or puts together",
                      step);
    if (base.empty() || base.has(Kind::Number))
      refuse("unknown-address",
             "it accesses memory at an address that comes from neither a parameter nor a variable",
             step);
  }

  void check_output_access(size_t number, const Provenance& base, const Step& step,
                           const MemoryRule* rule, Effect effect) {
    if (effect == Effect::Hint) return;
    if (!base.is_only(Kind::Output))
      return refuse("mixed", "one address may be that of its output or another one", step);
    if (!rule)
      return refuse("opcode", fmt::format("it accesses its output by {}", step.instruction->opcode),
                    step);
    if (rule->effect != Effect::Write) {
      if (effect == Effect::Read && rule->effect == Effect::Transfer)
        return refuse(rule->rule,
                      fmt::format("it reads its output by {}", step.instruction->opcode), step);
      return refuse(rule->rule, fmt::format("{} ({})", rule->words, step.instruction->opcode),
                    step);
    }
    if (const auto obstacle = store_obstacle(step, analysis_.element_bytes))
      return refuse(obstacle->rule, obstacle->what, step);
    analysis_.stores.push_back({number, step.instruction});
  }

  // Through the address of a parameter itself, other than by loads: a tensor map.
  void check_space(const Provenance& base, const Step& step, const MemoryRule* rule) {
    for (const Origin& origin : base.origins()) {
      if (origin.kind != Kind::Space || origin.parameter == Origin::kNoParameter) continue;
      const Variable& parameter = entry_.parameters[origin.parameter];
      if (!rule || rule->rule != "tma") {
        refuse("opcode",
               fmt::format("it uses parameter {} by {}", parameter.name, step.instruction->opcode),
               step);
        continue;
      }
      if (origin.parameter == analysis_.parameter && covers_pointer(origin))
        refuse("tma",
               fmt::format("it accesses its output through TMA ({})", step.instruction->opcode),
               step);
      else if (origin.offset != Origin::kAnyOffset)
        check_within(parameter, origin.offset, kTensorMapBytes, step);
    }
  }

  bool covers_pointer(const Origin& origin) const {
    const int64_t pointer = static_cast<int64_t>(analysis_.offset);
    return origin.offset == Origin::kAnyOffset ||
           (pointer >= origin.offset && pointer < origin.offset + int64_t{kTensorMapBytes});
  }

  // ---- Values

  // The output's address among what is stored or passed on.
  void check_data(const Provenance& value, const Step& step) {
    for (const Origin& origin : value.origins())
      if (origin.kind == Kind::Parameter || origin.kind == Kind::Output)
        use_of(origin).escapes = true;
    if (value.has(Kind::Output) || value.has(Kind::Piece))
      refuse("escape",
             fmt::format("it gives its output's address away ({})", step.instruction->opcode),
             step);
  }

  void check_computation(const FlowBody& body, const Step& step) {
    const std::vector<Argument>& in = step.arguments;
    Provenance sources;
    for (size_t i = 1; i < in.size(); ++i) sources.join(flow_.value(body, in[i]));
    const bool uses_piece = sources.has(Kind::Piece);
    if (!sources.has(Kind::Output) && !uses_piece) return;
    if (!uses_piece && allows(body, step)) return;
    if (const RefusedOpcode* row = refused_opcode(step.instruction->opcode))
      return refuse(row->rule, fmt::format("it {}", row->words), step);
    if (uses_piece || step.opcode[0] == "mov")
      return refuse("split", "it takes the output's address apart, or puts it together", step);
    refuse("opcode",
           fmt::format("it computes with the output's address ({})", step.instruction->opcode),
           step);
  }

  bool allows(const FlowBody& body, const Step& step) const {
    const std::vector<Argument>& in = step.arguments;
    const auto has = [&](size_t i) { return flow_.value(body, in[i]).has(Kind::Output); };
    const auto has_pointer = [&](size_t i) { return flow_.value(body, in[i]).has_pointer(); };
    const auto rule = value_rule(step.instruction->opcode);
    if (!rule) return false;
    switch (*rule) {
      case ValueRule::Copy: {
        const std::string_view space = access_space(step.opcode);
        // Pieces of the address are checked where they are used.
        return in.size() == 2 && (in[0].is_register() || in[0].form == Argument::Form::Tuple) &&
               in[1].is_register() && access_bits(step.opcode) == 64 &&
               (space.empty() || space == "global");
      }
      case ValueRule::Sum:
        return in.size() == 3 && in[0].is_register() && access_bits(step.opcode) == 64 &&
               step.opcode.size() == 2 && !(has(1) && has_pointer(2)) &&
               !(has(2) && has_pointer(1));
      case ValueRule::Difference:  // of two places in the output: a number
        return in.size() == 3 && in[0].is_register() && access_bits(step.opcode) == 64 &&
               step.opcode.size() == 2 &&
               (!has_pointer(2) || (flow_.value(body, in[1]).is_only(Kind::Output) &&
                                    flow_.value(body, in[2]).is_only(Kind::Output)));
      case ValueRule::MultiplySum:
        return in.size() == 4 && in[0].is_register() && !has(1) && !has(2) && has(3) &&
               !step.opcode.back().starts_with("f") && !has_part(step.opcode, "cc") &&
               !has_part(step.opcode, "hi");
      case ValueRule::Choice:
        return in.size() == 4 && in[0].is_register() && access_bits(step.opcode) == 64;
      case ValueRule::Convert:
        return in.size() == 2 && step.opcode.size() == 3 &&
               type_bits(fmt::format(".{}", step.opcode[1])) == 64 &&
               access_bits(step.opcode) == 64 && step.opcode[1][0] != 'f' &&
               step.opcode[2][0] != 'f';
      case ValueRule::Mask:
        return is_small_mask(step);
      case ValueRule::Test:
        return true;
      case ValueRule::Assemble:
      case ValueRule::Window:
        return false;
    }
    return false;
  }

  // Too few bits to make the address of: a check of alignment.
  static bool is_small_mask(const Step& step) {
    constexpr uint64_t kLargest = 4095;
    if (step.arguments.size() != 3) return false;
    const Argument& mask = step.arguments[2];
    if (mask.form != Argument::Form::Value || mask.ref.kind != Ref::Kind::Immediate) return false;
    const auto bits = to_integer(mask.ref.text);
    return bits && *bits <= kLargest && (*bits & (*bits + 1)) == 0;
  }

  // ---- What is found

  void note_use(const Provenance& base, const MemoryRule* rule, Effect effect) {
    for (const Origin& origin : base.origins()) {
      if (origin.kind != Kind::Parameter && origin.kind != Kind::Output) continue;
      PointerUse& use = use_of(origin);
      use.read |= effect == Effect::Read || !rule;
      use.written |= effect == Effect::Write || effect == Effect::Transfer;
      use.atomics |= effect == Effect::Atomic;
    }
  }

  PointerUse& use_of(const Origin& origin) {
    const bool is_output = origin.kind == Kind::Output;
    const size_t parameter = is_output ? analysis_.parameter : origin.parameter;
    const uint64_t offset = is_output ? analysis_.offset : static_cast<uint64_t>(origin.offset);
    PointerUse& use = uses_[{parameter, offset}];
    use.is_output |= is_output;
    if (use.name.empty()) {
      const Variable& formal = entry_.parameters[parameter];
      use.parameter = parameter;
      use.offset = offset;
      use.name = offset == 0 ? std::string(formal.name) : fmt::format("{}+{}", formal.name, offset);
    }
    return use;
  }

  void refuse(std::string_view rule, std::string what, const Step& step) {
    std::string where = lines_.where(step);
    if (refused_.insert(fmt::format("{} {}", rule, where)).second)
      analysis_.reasons.push_back({std::string(rule), std::move(what), std::move(where)});
  }

  const Module& module_;
  const Function& entry_;
  const Dataflow& flow_;
  SourceLines lines_;
  Analysis& analysis_;
  std::map<size_t, size_t> numbers_;  // Analysis::bodies by Dataflow::bodies
  std::map<std::pair<size_t, uint64_t>, PointerUse> uses_;
  std::set<std::string> refused_;
};

}  // namespace

void check_kernel(const Module& module, const Function& entry, const Dataflow& flow,
                  Analysis& analysis) {
  Checker(module, entry, flow, analysis).run();
}

}  // namespace attacca::ptx
