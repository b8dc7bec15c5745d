// From the syntax tree to steps: variables get addresses, labels become step numbers. A statement
// that cannot be decoded becomes a step that faults when a thread reaches it.
#include "fmt/format.h"

#include "ptx_interpreter/alu.hpp"
#include "ptx_interpreter/families.hpp"
#include "ptx_interpreter/variables.hpp"

namespace attacca::ptx_interpreter {
namespace {

class Functions {
 public:
  Functions(const ptx::Module& module, Program& program, const Places& places)
      : module_(module), program_(program), places_(places) {}

  // The code of a function, decoded on the first call; null: it has no body here.
  Result<const Code*> find(std::string_view name);
  const ptx::Module& module() const { return module_; }
  const Place* place_of(const ptx::Variable& variable) const {
    const auto at = places_.find(&variable);
    return at == places_.end() ? nullptr : &at->second;
  }

 private:
  const ptx::Module& module_;
  Program& program_;
  const Places& places_;
};

// ---- Calls

void enter(Thread& thread, const Code& callee, const std::vector<Place>& arguments,
           const std::vector<Place>& results) {
  constexpr size_t kMostFrames = 200;
  if (thread.frames.size() == kMostFrames) {
    thread.fault = "calls nest too deeply";
    return;
  }
  Frame frame;
  frame.code = &callee;
  frame.registers.resize(callee.registers);
  frame.params.resize(callee.param_bytes);
  frame.local_base = aligned(thread.local.size(), 16);
  thread.local.resize(frame.local_base + callee.local_bytes);
  const std::vector<std::byte>& from = thread.frame().params;
  for (size_t i = 0; i < arguments.size(); ++i)
    std::copy_n(from.begin() + static_cast<ptrdiff_t>(arguments[i].offset),
                std::min(arguments[i].bytes, callee.formals[i].bytes),
                frame.params.begin() + callee.formals[i].offset);
  for (const Place& result : results)
    frame.results.push_back({static_cast<uint32_t>(result.offset), result.bytes});
  thread.frames.push_back(std::move(frame));
}

void leave(Thread& thread) {
  if (thread.frames.size() == 1) {
    thread.state = State::Done;
    return;
  }
  const Frame done = std::move(thread.frames.back());
  thread.frames.pop_back();
  thread.local.resize(done.local_base);
  for (size_t i = 0; i < done.results.size(); ++i)
    std::copy_n(done.params.begin() + done.code->results[i].offset,
                std::min(done.results[i].bytes, done.code->results[i].bytes),
                thread.frame().params.begin() + done.results[i].offset);
}

// ---- One function

class FunctionDecoder {
 public:
  FunctionDecoder(Functions& functions, const ptx::Function& function, Code& code)
      : functions_(functions),
        function_(function),
        code_(code),
        operands_(functions.module(), code) {}

  Status decode() {
    code_.function = &function_;
    operands_.enter();
    for (const ptx::Item& item : functions_.module().items)
      if (const auto* declaration = std::get_if<ptx::Declaration>(&item))
        for (const ptx::Variable& variable : declaration->variables) declare(variable);
    operands_.enter();
    for (const ptx::Variable& variable : function_.parameters)
      code_.formals.push_back(add_param(variable, !function_.is_entry));
    for (const ptx::Variable& variable : function_.results)
      code_.results.push_back(add_param(variable, true));
    ATTACCA_TRY_VOID(add(*function_.body, 0));
    return resolve_branches();
  }

 private:
  // What the module has placed; registers are placed as they are met.
  void declare(const ptx::Variable& variable) {
    operands_.declare(variable);
    if (const Place* place = functions_.place_of(variable)) operands_.place(variable, *place);
  }

  Slot add_param(const ptx::Variable& variable, bool is_in_frame) {
    const auto bytes = static_cast<uint32_t>(ptx::size_in_bytes(variable).value_or(0));
    const auto at = static_cast<uint32_t>(aligned(code_.param_bytes, alignment_of(variable)));
    code_.param_bytes = at + bytes;
    operands_.declare(variable);
    const uint64_t window = is_in_frame ? 0 : window_of(Space::Parameter);
    operands_.place(variable, {Space::Parameter, at + window, is_in_frame, bytes});
    return {at, bytes};
  }

  void add_local(const ptx::Variable& variable) {
    const auto bytes = static_cast<uint32_t>(ptx::size_in_bytes(variable).value_or(0));
    const auto at = static_cast<uint32_t>(aligned(code_.local_bytes, alignment_of(variable)));
    code_.local_bytes = at + bytes;
    operands_.declare(variable);
    operands_.place(variable, {Space::Local, at, false, bytes});
  }

  void add(const ptx::Declaration& declaration) {
    for (const ptx::Variable& variable : declaration.variables) {
      if (variable.space == ".param")
        add_param(variable, true);
      else if (variable.space == ".local")
        add_local(variable);
      else
        declare(variable);
    }
  }

  Status add(const ptx::Scope& scope, size_t parent) {
    const size_t own = scopes_.size();
    scopes_.push_back({parent, {}});
    operands_.enter();
    for (const ptx::Statement& statement : scope.statements) {
      if (const auto* inner = std::get_if<ptx::Scope>(&statement.node)) {
        ATTACCA_TRY_VOID(add(*inner, own));
      } else if (const auto* declaration = std::get_if<ptx::Declaration>(&statement.node)) {
        add(*declaration);
      } else if (const auto* label = std::get_if<ptx::Label>(&statement.node)) {
        scopes_[own].labels[label->name] = code_.steps.size();
      } else if (const auto* instruction = std::get_if<ptx::Instruction>(&statement.node)) {
        ATTACCA_TRY_VOID(add(*instruction, own));
      }
    }
    operands_.leave();
    return {};
  }

  Status add(const ptx::Instruction& instruction, size_t scope) {
    Result<Step> decoded = decode_any(instruction, scope);
    Step step;
    if (decoded)
      step = *std::move(decoded);
    else
      step.run = [what = decoded.error().what](Thread& thread) { thread.fault = what; };
    step.source = &instruction;
    if (instruction.predicate) {
      ATTACCA_TRY(const Read guard,
                  operands_.read_name(instruction.predicate->name, instruction.span));
      step.guard = [guard, negated = instruction.predicate->negated](Thread& thread) {
        return uint64_t{(guard(thread) != 0) != negated};
      };
    }
    code_.steps.push_back(std::move(step));
    return {};
  }

  Result<Step> decode_any(const ptx::Instruction& instruction, size_t scope) {
    const std::string_view first = Parts(instruction.opcode).first();
    const bool is_barrier = first == "bar" || first == "barrier";
    if (first == "bra") return decode_branch(instruction, scope);
    if (first == "call") return decode_call(instruction);
    if (first == "ret") return Step{.run = leave};
    if (first == "exit") return Step{.run = [](Thread& thread) { thread.state = State::Done; }};
    if (first == "trap") return Step{.run = [](Thread& thread) { thread.fault = "a trap"; }};
    if (is_barrier && instruction.opcode != "bar.warp.sync") return decode_barrier(instruction);
    for (const auto decode : {decode_arithmetic, decode_memory, decode_warp}) {
      ATTACCA_TRY(std::optional<Step> step, decode(instruction, operands_));
      if (step) return *std::move(step);
    }
    return operands_.unknown(instruction.span, "the opcode");
  }

  Result<Step> decode_branch(const ptx::Instruction& instruction, size_t scope) {
    const bool is_plain = instruction.opcode == "bra" || instruction.opcode == "bra.uni";
    const auto* label = is_plain && instruction.operands.size() == 1
                            ? std::get_if<ptx::Name>(&instruction.operands[0].form)
                            : nullptr;
    if (label == nullptr) return operands_.unknown(instruction.span, "the branch");
    branches_.push_back({code_.steps.size(), scope, label->text});
    return Step{};
  }

  Status resolve_branches() {
    for (const Branch& branch : branches_) {
      size_t scope = branch.scope;
      while (scope != 0 && !scopes_[scope].labels.contains(branch.label))
        scope = scopes_[scope].parent;
      const auto at = scopes_[scope].labels.find(branch.label);
      Step& step = code_.steps[branch.step];
      if (at == scopes_[scope].labels.end())
        return operands_.unknown(step.source->span, "the label");
      step.run = [target = at->second](Thread& thread) { thread.frame().at = target; };
    }
    return {};
  }

  Result<std::vector<Place>> places_of(const ptx::Operand& list) {
    std::vector<Place> places;
    const auto* tuple = std::get_if<ptx::Tuple>(&list.form);
    if (tuple == nullptr) return operands_.unknown(list.span, "the arguments");
    for (const ptx::Operand& element : tuple->elements) {
      ATTACCA_TRY(const Place place, operands_.param_of_call(element));
      places.push_back(place);
    }
    return places;
  }

  // call.uni (results), function, (arguments); both lists may be absent.
  Result<Step> decode_call(const ptx::Instruction& instruction) {
    const auto& given = instruction.operands;
    const size_t at = !given.empty() && std::holds_alternative<ptx::Tuple>(given[0].form) ? 1 : 0;
    const auto* name = at < given.size() ? std::get_if<ptx::Name>(&given[at].form) : nullptr;
    ATTACCA_TRY(const Code* const callee,
                name ? functions_.find(name->text) : Result<const Code*>(nullptr));
    if (callee == nullptr || given.size() > at + 2)
      return operands_.unknown(instruction.span, "the function that is called");
    std::vector<Place> results, arguments;
    if (at == 1) {
      ATTACCA_TRY(results, places_of(given[0]));
    }
    if (given.size() == at + 2) {
      ATTACCA_TRY(arguments, places_of(given[at + 1]));
    }
    if (results.size() != callee->function->results.size() ||
        arguments.size() != callee->function->parameters.size())
      return operands_.unknown(instruction.span, "a call with other arguments");
    return Step{.run = [=](Thread& thread) { enter(thread, *callee, arguments, results); }};
  }

  Result<Step> decode_barrier(const ptx::Instruction& instruction) {
    Parts parts(instruction.opcode);
    parts.take("cta");
    parts.take("aligned");
    const size_t count = instruction.operands.size();
    if (!parts.take("sync") || !parts.empty() || count < 1 || count > 2)
      return operands_.unknown(instruction.span, "the opcode");
    ATTACCA_TRY(const Read barrier, operands_.read(instruction.operands[0], {}));
    Read threads = [](Thread&) { return uint64_t{0}; };
    if (count == 2) {
      ATTACCA_TRY(threads, operands_.read(instruction.operands[1], {}));
    }
    return Step{.run = [=](Thread& thread) {
      thread.barrier = static_cast<uint32_t>(barrier(thread));
      thread.barrier_count = static_cast<uint32_t>(threads(thread));
      thread.state = State::AtBarrier;
    }};
  }

  struct LabelScope {
    size_t parent = 0;
    std::map<std::string_view, size_t> labels;
  };
  struct Branch {
    size_t step = 0, scope = 0;
    std::string_view label;
  };

  Functions& functions_;
  const ptx::Function& function_;
  Code& code_;
  Operands operands_;
  std::vector<LabelScope> scopes_;
  std::vector<Branch> branches_;
};

Result<const Code*> Functions::find(std::string_view name) {
  const auto known = program_.functions.find(name);
  if (known != program_.functions.end()) return known->second.get();
  for (const ptx::Item& item : module_.items) {
    const auto* function = std::get_if<ptx::Function>(&item);
    if (function == nullptr || !function->body || function->name != name) continue;
    Code* code = (program_.functions[name] = std::make_unique<Code>()).get();
    ATTACCA_TRY_VOID(FunctionDecoder(*this, *function, *code).decode());
    return code;
  }
  return nullptr;
}

}  // namespace

Result<Program> decode(const ptx::Module& module, std::string_view entry, Memory& memory) {
  Program program;
  program.module = &module;
  const Places places = place_variables(module, memory, &program.static_shared);
  ATTACCA_TRY(program.entry, Functions(module, program, places).find(entry));
  if (program.entry == nullptr || !program.entry->function->is_entry)
    return fail(fmt::format("no kernel {}", entry));
  return program;
}

}  // namespace attacca::ptx_interpreter
