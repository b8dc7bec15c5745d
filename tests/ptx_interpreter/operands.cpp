#include "ptx_interpreter/operands.hpp"

#include <charconv>

#include "fmt/format.h"

#include "ptx/syntax/cursor.hpp"

namespace attacca::ptx_interpreter {
namespace {

uint32_t register_bits(std::string_view type) {
  return type == ".pred" ? 1 : ptx::type_bits(type);
}

}  // namespace

std::optional<uint64_t> to_number(std::string_view text) {
  bool negative = false;
  while (text.starts_with('-') || text.starts_with(' ')) {
    negative ^= text.front() == '-';
    text.remove_prefix(1);
  }
  uint64_t value = 0;
  const bool is_single = text.starts_with("0f") || text.starts_with("0F");
  if (is_single || text.starts_with("0d") || text.starts_with("0D")) {
    const std::string_view digits = text.substr(2);
    const auto [end, error] = std::from_chars(digits.begin(), digits.end(), value, 16);
    if (error != std::errc() || end != digits.end()) return std::nullopt;
    return negative ? value ^ uint64_t { 1 } << (is_single ? 31 : 63) : value;
  }
  const auto integer = ptx::to_integer(text);
  if (!integer) return std::nullopt;
  return negative ? 0 - *integer : *integer;
}

std::optional<Read> special_register(std::string_view name) {
  using Get = uint64_t (*)(const Thread&);
  static const std::map<std::string_view, Get> table = {
      {"%tid.x", [](const Thread& t) -> uint64_t { return t.index.x; }},
      {"%tid.y", [](const Thread& t) -> uint64_t { return t.index.y; }},
      {"%tid.z", [](const Thread& t) -> uint64_t { return t.index.z; }},
      {"%ntid.x", [](const Thread& t) -> uint64_t { return t.block->grid->threads.x; }},
      {"%ntid.y", [](const Thread& t) -> uint64_t { return t.block->grid->threads.y; }},
      {"%ntid.z", [](const Thread& t) -> uint64_t { return t.block->grid->threads.z; }},
      {"%globaltimer", [](const Thread& t) { return t.block->grid->nanoseconds += 1000; }},
      {"%ctaid.x", [](const Thread& t) -> uint64_t { return t.block->index.x; }},
      {"%ctaid.y", [](const Thread& t) -> uint64_t { return t.block->index.y; }},
      {"%ctaid.z", [](const Thread& t) -> uint64_t { return t.block->index.z; }},
      {"%nctaid.x", [](const Thread& t) -> uint64_t { return t.block->grid->blocks.x; }},
      {"%nctaid.y", [](const Thread& t) -> uint64_t { return t.block->grid->blocks.y; }},
      {"%nctaid.z", [](const Thread& t) -> uint64_t { return t.block->grid->blocks.z; }},
      {"%laneid", [](const Thread& t) -> uint64_t { return t.lane; }},
      {"%warpid", [](const Thread& t) -> uint64_t { return t.warp; }},
      {"%lanemask_eq", [](const Thread& t) -> uint64_t { return 1u << t.lane; }},
      {"%lanemask_lt", [](const Thread& t) -> uint64_t { return (1u << t.lane) - 1; }},
      {"%lanemask_le", [](const Thread& t) -> uint64_t { return (2u << t.lane) - 1; }},
      {"%lanemask_gt", [](const Thread& t) -> uint64_t { return ~((2u << t.lane) - 1); }},
      {"%lanemask_ge", [](const Thread& t) -> uint64_t { return ~((1u << t.lane) - 1); }},
      {"%dynamic_smem_size",
       [](const Thread& t) -> uint64_t { return t.block->grid->shared_bytes; }},
      {"WARP_SZ", [](const Thread&) -> uint64_t { return kWarpSize; }},
  };
  const auto at = table.find(name);
  return at == table.end() ? std::nullopt
                           : std::optional<Read>([get = at->second](Thread& t) { return get(t); });
}

tl::unexpected<Error> Operands::unknown(ptx::Span at, std::string_view what) const {
  return fail(fmt::format("the interpreter does not know {}: {}", what, module_.text(at)),
              module_.where(at));
}

Result<Operands::Register> Operands::find_register(std::string_view name, ptx::Span at) {
  const ptx::Variable* variable = scopes_.find(name);
  if (variable == nullptr || variable->space != ".reg" || variable->vector != 1)
    return unknown(at, fmt::format("the register {}", name));
  const auto [entry, is_new] = registers_.try_emplace({variable, name}, code_.registers);
  if (is_new) ++code_.registers;
  const uint32_t bits = register_bits(variable->type);
  if (bits > 64) return unknown(at, "registers of 128 bits");
  return Register{entry->second, bits};
}

Result<Read> Operands::address_of(const ptx::Variable& variable, ptx::Span at) {
  const auto place = places_.find(&variable);
  if (place == places_.end() || place->second.is_in_frame)
    return unknown(at, fmt::format("the address of {}", variable.name));
  const uint64_t offset = place->second.offset;
  if (place->second.space == Space::Local)
    return [offset](Thread& thread) { return thread.frame().local_base + offset; };
  return [offset](Thread&) { return offset; };
}

Result<Read> Operands::read_name(std::string_view name, ptx::Span at) {
  if (auto special = special_register(name)) return *special;
  const ptx::Variable* variable = scopes_.find(name);
  if (variable != nullptr && variable->space != ".reg") return address_of(*variable, at);
  ATTACCA_TRY(const Register found, find_register(name, at));
  return [index = found.index](Thread& thread) { return thread.frame().registers[index]; };
}

Result<Read> Operands::read(const ptx::Operand& operand, const Type& type) {
  if (const auto* name = std::get_if<ptx::Name>(&operand.form))
    return read_name(name->text, operand.span);
  if (const auto* immediate = std::get_if<ptx::Immediate>(&operand.form)) {
    const auto value = to_number(immediate->text);
    if (!value) return unknown(operand.span, "the number");
    return [value = *value](Thread&) { return value; };
  }
  if (std::holds_alternative<ptx::Expression>(operand.form)) {
    const std::string_view text = module_.text(operand.span);
    if (text.starts_with('!')) {
      ATTACCA_TRY(Read inner, read_name(text.substr(1), operand.span));
      return [inner](Thread& thread) { return uint64_t{inner(thread) == 0}; };
    }
    if (const size_t plus = text.find('+'); plus != std::string_view::npos) {
      const auto offset = to_number(text.substr(plus + 1));
      ATTACCA_TRY(Read inner, read_name(text.substr(0, plus), operand.span));
      if (offset)
        return [inner, offset = *offset](Thread& thread) { return inner(thread) + offset; };
    }
  }
  // mov.b64 %rd, {%r1, %r2}: the first is the low part.
  if (const auto* tuple = std::get_if<ptx::Tuple>(&operand.form);
      tuple && !tuple->elements.empty()) {
    const auto count = static_cast<uint32_t>(tuple->elements.size());
    const uint32_t bits = type.bits * type.lanes / count;
    std::vector<Read> parts;
    for (const ptx::Operand& element : tuple->elements) {
      ATTACCA_TRY(Read part, read(element, {Kind::Bits, bits}));
      parts.push_back(std::move(part));
    }
    return [parts, bits](Thread& thread) {
      uint64_t value = 0;
      for (size_t i = 0; i < parts.size(); ++i)
        value |= truncate(parts[i](thread), bits) << (i * bits);
      return value;
    };
  }
  return unknown(operand.span, "the operand");
}

Result<Write> Operands::write_register(std::string_view name, ptx::Span at, uint32_t bits,
                                       bool is_signed) {
  if (name == "_") return [](Thread&, uint64_t) {};
  ATTACCA_TRY(const Register found, find_register(name, at));
  return [=](Thread& thread, uint64_t value) {
    if (is_signed)
      value = static_cast<uint64_t>(sign_extend(value, bits));
    else
      value = truncate(value, bits);
    thread.frame().registers[found.index] = truncate(value, found.bits);
  };
}

Result<Write> Operands::write(const ptx::Operand& operand, uint32_t bits, bool is_signed) {
  if (const auto* name = std::get_if<ptx::Name>(&operand.form))
    return write_register(name->text, operand.span, bits, is_signed);
  if (const auto* tuple = std::get_if<ptx::Tuple>(&operand.form);
      tuple && !tuple->elements.empty()) {
    const uint32_t part = bits / static_cast<uint32_t>(tuple->elements.size());
    std::vector<Write> parts;
    for (const ptx::Operand& element : tuple->elements) {
      ATTACCA_TRY(Write one, write(element, part));
      parts.push_back(std::move(one));
    }
    return [parts, part](Thread& thread, uint64_t value) {
      for (size_t i = 0; i < parts.size(); ++i) parts[i](thread, value >> (i * part));
    };
  }
  return unknown(operand.span, "the destination");
}

Result<std::pair<Write, Write>> Operands::write_pair(const ptx::Operand& operand, uint32_t bits) {
  const std::string_view text = module_.text(operand.span);
  const size_t bar = text.find('|');
  if (bar == std::string_view::npos) {
    ATTACCA_TRY(Write first, write(operand, bits));
    return std::pair(std::move(first), Write([](Thread&, uint64_t) {}));
  }
  const auto trimmed = [](std::string_view name) {
    while (name.starts_with(' ')) name.remove_prefix(1);
    while (name.ends_with(' ')) name.remove_suffix(1);
    return name;
  };
  ATTACCA_TRY(Write first, write_register(trimmed(text.substr(0, bar)), operand.span, bits, false));
  ATTACCA_TRY(Write second, write_register(trimmed(text.substr(bar + 1)), operand.span, 1, false));
  return std::pair(std::move(first), std::move(second));
}

Result<Location> Operands::location(const ptx::Operand& operand, Space space) {
  const auto* address = std::get_if<ptx::Address>(&operand.form);
  if (address == nullptr || !address->coordinates.empty())
    return unknown(operand.span, "the address");
  const auto offset = static_cast<uint64_t>(address->offset);
  if (address->base.empty()) return unknown(operand.span, "absolute addresses");
  const ptx::Variable* variable = scopes_.find(address->base);
  if (variable != nullptr && variable->space != ".reg") {
    const auto place = places_.find(variable);
    if (place == places_.end()) return unknown(operand.span, "the place of");
    if (place->second.is_in_frame)
      return Location{Space::Parameter, true,
                      [at = place->second.offset + offset](Thread&) { return at; }};
    // Generic access by a variable's name: its own space.
    if (space == Space::Generic) space = place->second.space;
  }
  ATTACCA_TRY(Read base, read_name(address->base, operand.span));
  return Location{space, false, [base, offset](Thread& thread) { return base(thread) + offset; }};
}

Result<Place> Operands::param_of_call(const ptx::Operand& operand) {
  const auto* name = std::get_if<ptx::Name>(&operand.form);
  const ptx::Variable* variable = name ? scopes_.find(name->text) : nullptr;
  const auto place = variable ? places_.find(variable) : places_.end();
  if (place == places_.end() || !place->second.is_in_frame)
    return unknown(operand.span, "the argument of a call");
  return place->second;
}

}  // namespace attacca::ptx_interpreter
