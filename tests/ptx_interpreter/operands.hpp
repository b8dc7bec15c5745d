// What the operands of one function's instructions are: registers, numbers, addresses of variables.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "ptx/syntax/names.hpp"
#include "ptx_interpreter/machine.hpp"
#include "ptx_interpreter/numbers.hpp"

namespace attacca::ptx_interpreter {

// Where a variable lies.
struct Place {
  Space space = Space::Global;
  uint64_t offset = 0;       // in its space; of a local, in its frame
  bool is_in_frame = false;  // a .param variable of a function or of a call
  uint32_t bytes = 0;
};

struct Location {  // an address operand
  Space space = Space::Generic;
  bool is_in_frame = false;
  Read address;
};

class Operands {
 public:
  Operands(const ptx::Module& module, Code& code) : module_(module), code_(code) {}

  void enter() { scopes_.enter(); }
  void leave() { scopes_.leave(); }
  void declare(const ptx::Variable& variable) { scopes_.declare(variable); }
  void place(const ptx::Variable& variable, Place place) { places_[&variable] = place; }

  Result<Read> read(const ptx::Operand& operand, const Type& type);
  Result<Read> read_name(std::string_view name, ptx::Span at);
  // `is_signed`: what is narrower than the register fills it with its sign.
  Result<Write> write(const ptx::Operand& operand, uint32_t bits, bool is_signed = false);
  // %a|%b, or %a alone; the second write is empty then.
  Result<std::pair<Write, Write>> write_pair(const ptx::Operand& operand, uint32_t bits);
  Result<Location> location(const ptx::Operand& operand, Space space);
  Result<Place> param_of_call(const ptx::Operand& operand);

  tl::unexpected<Error> unknown(ptx::Span at, std::string_view what) const;

 private:
  struct Register {
    size_t index = 0;
    uint32_t bits = 0;
  };
  Result<Register> find_register(std::string_view name, ptx::Span at);
  Result<Read> address_of(const ptx::Variable& variable, ptx::Span at);
  Result<Write> write_register(std::string_view name, ptx::Span at, uint32_t bits, bool is_signed);

  const ptx::Module& module_;
  Code& code_;
  ptx::ScopeStack scopes_;
  std::map<const ptx::Variable*, Place> places_;
  std::map<std::pair<const ptx::Variable*, std::string_view>, size_t> registers_;
};

// "12", "-1", "0f3F800000"; nullopt for what is no number.
std::optional<uint64_t> to_number(std::string_view text);
std::optional<Read> special_register(std::string_view name);

}  // namespace attacca::ptx_interpreter
