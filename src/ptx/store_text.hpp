// A store as what replaces it: each of its elements through the tail, then the store.
#pragma once

#include <string>

#include "ptx/function_code.hpp"

namespace attacca::ptx {

// The names that a fused kernel uses beside the user's own.
struct TailNames {
  std::string prefix;    // "tail_": fresh
  std::string function;  // the tail's
  size_t operands = 0;
  uint32_t element_bytes = 0;

  std::string base() const;               // register: the output's address
  std::string operand(size_t i) const;    // register: an operand's address
  std::string parameter(size_t i) const;  // .param variable: appended to a kernel or function
  std::string base_parameter() const;     // of a function
  std::string clone(std::string_view name, size_t body) const;
  // ".b32" or ".b64": what the tail takes and gives.
  std::string_view word() const { return element_bytes == 8 ? ".b64" : ".b32"; }
};

// ".extern .func (.param .b32 ...) NAME (...);"
std::string tail_declaration(const TailNames& names);

// REQUIRES: a store that an analysis gave.
std::string store_text(const Module& module, const Step& store, const TailNames& names);

}  // namespace attacca::ptx
