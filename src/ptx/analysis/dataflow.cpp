#include "ptx/analysis/dataflow.hpp"

#include <algorithm>

#include "ptx/analysis/opcode_rules.hpp"
#include "ptx/syntax/cursor.hpp"

namespace attacca::ptx {
namespace {

using Kind = Origin::Kind;

constexpr size_t kMostBodies = 256;

bool is_param(const Ref& ref) {
  return ref.kind == Ref::Kind::Variable && ref.variable->space == ".param";
}

bool is_call(const Step& step) {
  return step.opcode[0] == "call";
}
bool is_load(const Step& step) {
  return step.opcode[0] == "ld" || step.opcode[0] == "ldu";
}

// The registers that a load or store moves: one, or those of a tuple.
std::vector<Ref> moved_refs(const Argument& argument) {
  if (argument.form == Argument::Form::Value) return {argument.ref};
  return argument.parts;
}

std::optional<int64_t> constant(const Argument& argument) {
  if (argument.form != Argument::Form::Value || argument.ref.kind != Ref::Kind::Immediate)
    return std::nullopt;
  std::string_view text = argument.ref.text;
  const bool negative = text.starts_with('-');
  if (negative) text.remove_prefix(1);
  const auto value = to_integer(text);
  if (!value) return std::nullopt;
  return static_cast<int64_t>(negative ? 0 - *value : *value);
}

}  // namespace

CallShape call_shape(const Step& step) {
  CallShape shape;
  bool named = false;
  for (const Argument& argument : step.arguments) {
    if (argument.form == Argument::Form::Value && !named) {
      shape.callee = argument.ref;
      named = true;
    } else if (argument.form == Argument::Form::Tuple) {
      std::vector<Ref>& list = named ? shape.arguments : shape.results;
      list.insert(list.end(), argument.parts.begin(), argument.parts.end());
    }
  }
  return shape;
}

Dataflow::Dataflow(ModuleCode& code, const Function& entry, size_t parameter, uint64_t offset)
    : code_(code),
      entry_(entry),
      parameter_(static_cast<uint32_t>(parameter)),
      offset_(static_cast<int64_t>(offset)) {
  body_for(code_.code_of(entry), {});
}

std::optional<size_t> Dataflow::callee_of(const FlowBody& body, const Step& step) {
  const auto found = body.callees.find(&step);
  return found == body.callees.end() ? std::nullopt : std::optional(found->second);
}

std::optional<uint32_t> Dataflow::entry_parameter(const Variable* variable) const {
  const std::vector<Variable>& formals = entry_.parameters;
  for (size_t i = 0; i < formals.size(); ++i)
    if (&formals[i] == variable) return static_cast<uint32_t>(i);
  return std::nullopt;
}

Provenance Dataflow::parameter_value(uint32_t parameter, int64_t offset) const {
  if (parameter == Origin::kNoParameter || offset == Origin::kAnyOffset)
    return Provenance::of(Kind::Unknown);
  const auto size = static_cast<int64_t>(size_in_bytes(entry_.parameters[parameter]).value_or(0));
  if (offset < 0 || offset > size - static_cast<int64_t>(kPointerBytes))
    return Provenance::of(Kind::Unknown);
  if (parameter == parameter_ && offset == offset_) return Provenance::of(Kind::Output);
  const bool declared = entry_.parameters[parameter].is_pointer && offset == 0;
  return Origin{Kind::Parameter, declared, parameter, offset};
}

Provenance Dataflow::value(const FlowBody& body, const Ref& ref) const {
  switch (ref.kind) {
    case Ref::Kind::Register:
      return body.registers[ref.index];
    case Ref::Kind::Variable:
      if (ref.variable->space != ".param") return Provenance::of(Kind::Symbol);
      if (const auto index = entry_parameter(ref.variable))
        return Origin{Kind::Space, false, *index, 0};
      return Origin{Kind::Space, false, Origin::kNoParameter, Origin::kAnyOffset};
    case Ref::Kind::Function:
      return Provenance::of(Kind::Symbol);
    case Ref::Kind::Immediate:
    case Ref::Kind::Special:
      return {};
  }
  return {};
}

Provenance Dataflow::value(const FlowBody& body, const Argument& argument) const {
  if (argument.form == Argument::Form::Value || argument.form == Argument::Form::Address)
    return value(body, argument.ref).moved(argument.offset);
  Provenance all;
  for (const Ref& part : argument.parts) all.join(value(body, part).moved(std::nullopt));
  return all;
}

std::optional<std::pair<const Variable*, uint64_t>> Dataflow::cell_of(const Argument& address) {
  if (address.form != Argument::Form::Address || !is_param(address.ref) || address.offset < 0)
    return std::nullopt;
  return std::pair(address.ref.variable, static_cast<uint64_t>(address.offset));
}

std::optional<size_t> Dataflow::body_for(const FunctionCode& code, Cells arguments) {
  if (std::find(active_.begin(), active_.end(), &code) != active_.end()) return std::nullopt;
  for (size_t i = 0; i < bodies_.size(); ++i)
    if (bodies_[i]->code == &code && bodies_[i]->arguments == arguments) return i;
  if (bodies_.size() == kMostBodies) return std::nullopt;
  bodies_.push_back(std::make_unique<FlowBody>());
  const size_t index = bodies_.size() - 1;
  FlowBody& body = *bodies_.back();
  body.code = &code;
  body.cells = arguments;
  body.arguments = std::move(arguments);
  body.registers.resize(code.registers.size());
  active_.push_back(&code);
  solve(body);
  active_.pop_back();
  return index;
}

void Dataflow::solve(FlowBody& body) {
  const bool outer = settled_;
  for (const bool settled : {false, true}) {
    settled_ = settled;
    do {
      changed_ = false;
      for (const Step& step : body.code->steps) transfer(body, step);
    } while (changed_);
  }
  settled_ = outer;
}

void Dataflow::transfer(FlowBody& body, const Step& step) {
  if (is_call(step)) return call(body, step);
  if (step.arguments.empty()) return;
  if (is_load(step)) return load(body, step);
  if (step.opcode[0] == "st" && access_space(step.opcode) == "param")
    return store_parameter(body, step);
  if (step.arguments[0].form == Argument::Form::Address) return;
  assign(body, step.arguments[0], computed(body, step));
}

void Dataflow::assign(FlowBody& body, const Ref& destination, const Provenance& value) {
  if (destination.kind != Ref::Kind::Register) return;
  Provenance& own = body.registers[destination.index];
  // A register that is a pointer after one instruction and a constant after another may be a
  // number, too: what it is added to may be the pointer.
  const bool is_either = settled_ && value.empty() && !own.empty();
  changed_ |= own.join(is_either ? Provenance::of(Kind::Number) : value);
}

void Dataflow::assign(FlowBody& body, const Argument& destination, const Provenance& value) {
  if (destination.form == Argument::Form::Value) return assign(body, destination.ref, value);
  const bool splits = value.has(Kind::Output) || value.has(Kind::Piece);
  for (const Ref& part : destination.parts)
    assign(body, part, splits ? Provenance::of(Kind::Piece) : value.as_number());
}

// 8 bytes that a load takes from `byte` bytes behind its address.
Provenance Dataflow::loaded(const FlowBody& body, const Argument& address, uint64_t byte) const {
  if (const auto cell = cell_of(address); cell && !entry_parameter(cell->first)) {
    const auto found = body.cells.find({cell->first, cell->second + byte});
    return found == body.cells.end() ? Provenance::of(Kind::Unknown) : found->second;
  }
  Provenance all;
  for (const Origin& origin : value(body, address).origins()) {
    if (origin.kind != Kind::Space || origin.offset == Origin::kAnyOffset)
      all.join(Provenance::of(Kind::Unknown));
    else
      all.join(parameter_value(origin.parameter, origin.offset + static_cast<int64_t>(byte)));
  }
  return all.empty() ? Provenance::of(Kind::Unknown) : all;
}

void Dataflow::load(FlowBody& body, const Step& step) {
  if (step.arguments.size() < 2) return;
  const uint32_t bits = access_bits(step.opcode);
  uint64_t byte = 0;
  for (const Ref& destination : moved_refs(step.arguments[0])) {
    if (bits == 64)
      assign(body, destination, loaded(body, step.arguments[1], byte));
    else
      assign(body, destination,
             Provenance::of(bits == 0 || bits > 64 ? Kind::Unknown : Kind::Number));
    byte += bits / 8;
  }
}

void Dataflow::store_parameter(FlowBody& body, const Step& step) {
  const auto cell = cell_of(step.arguments[0]);
  if (!cell || step.arguments.size() < 2 || access_bits(step.opcode) != 64) return;
  uint64_t byte = cell->second;
  for (const Ref& source : moved_refs(step.arguments[1])) {
    changed_ |= body.cells[{cell->first, byte}].join(value(body, source));
    byte += 8;
  }
}

void Dataflow::call(FlowBody& body, const Step& step) {
  const CallShape shape = call_shape(step);
  const Function* callee =
      shape.callee.kind == Ref::Kind::Function ? code_.find(shape.callee.text) : nullptr;
  if (!callee || !callee->body || callee->is_entry) return;
  Cells arguments;
  const size_t count = std::min(shape.arguments.size(), callee->parameters.size());
  for (const auto& [cell, origin] : body.cells)
    for (size_t i = 0; i < count; ++i)
      if (shape.arguments[i].variable == cell.first)
        arguments[{&callee->parameters[i], cell.second}].join(origin);
  const bool changed_here = changed_;
  const auto index = body_for(code_.code_of(*callee), std::move(arguments));
  changed_ = changed_here;
  if (!index) {
    body.callees.erase(&step);
    return;
  }
  body.callees[&step] = *index;
  for (const auto& [cell, origin] : bodies_[*index]->cells)
    for (size_t i = 0; i < std::min(shape.results.size(), callee->results.size()); ++i)
      if (cell.first == &callee->results[i] && shape.results[i].variable)
        changed_ |= body.cells[{shape.results[i].variable, cell.second}].join(origin);
}

Provenance Dataflow::computed(const FlowBody& body, const Step& step) const {
  const std::vector<Argument>& in = step.arguments;
  Provenance all;
  for (size_t i = 1; i < in.size(); ++i) all.join(value(body, in[i]));
  const bool from_memory = std::any_of(in.begin(), in.end(), [](const Argument& argument) {
    return argument.form == Argument::Form::Address;
  });
  if (from_memory)
    return Provenance::of(access_bits(step.opcode) == 64 ? Kind::Unknown : Kind::Number);
  const auto rule = value_rule(step.instruction->opcode);
  if (!rule) return all.as_number();
  switch (*rule) {
    case ValueRule::Copy:
      if (in.size() != 2) return all.as_number();
      // Two halves may make an address, and an address of shared or local memory is one.
      if (in[1].form == Argument::Form::Tuple) return all.as_unknown();
      if (step.opcode[0] == "cvta" && !has_part(step.opcode, "to") &&
          (access_space(step.opcode) == "shared" || access_space(step.opcode) == "local"))
        return all.has(Kind::Output) ? all : Provenance::of(Kind::Symbol);
      return all;
    case ValueRule::Sum:
      if (in.size() != 3) return all.as_number();
      if (const auto offset = constant(in[2])) return value(body, in[1]).moved(offset);
      return sum(value(body, in[1]).moved(std::nullopt), value(body, in[2]).moved(std::nullopt));
    case ValueRule::Difference:
      if (in.size() != 3) return all.as_number();
      if (const auto offset = constant(in[2]))
        return value(body, in[1]).moved(static_cast<int64_t>(0 - static_cast<uint64_t>(*offset)));
      return difference(value(body, in[1]).moved(std::nullopt), value(body, in[2]));
    case ValueRule::MultiplySum: {
      if (in.size() != 4) return all.as_number();
      Provenance factors = value(body, in[1]);
      factors.join(value(body, in[2]));
      return sum(factors.as_number(), value(body, in[3]).moved(std::nullopt));
    }
    case ValueRule::Choice: {
      if (in.size() != 4) return all.as_number();
      Provenance either = value(body, in[1]);
      either.join(value(body, in[2]));
      return either;
    }
    case ValueRule::Convert:
      return access_bits(step.opcode) == 64 && step.opcode.size() == 3 &&
                     step.opcode[1].ends_with("64")
                 ? all
                 : all.as_number();
    case ValueRule::Assemble:
      if (in.size() != 3 || constant(in[1]) || constant(in[2])) return all.as_number();
      return access_bits(step.opcode) == 64 ? all.as_unknown() : all.as_number();
    case ValueRule::Window:
      return Provenance::of(Kind::Symbol);
    case ValueRule::Mask:
    case ValueRule::Test:
      return all.as_number();
  }
  return all.as_number();
}

}  // namespace attacca::ptx
