// The text that replaces a store: each of its elements goes through the tail and is then stored.
#pragma once

#include <set>
#include <string>

#include "ptx/analysis/function_code.hpp"

namespace attacca::ptx {

// The names that a fused kernel adds to the user's.
struct TailNames {
  std::string prefix;    // "tail_": fresh
  std::string function;  // the tail's
  size_t operands = 0;
  uint32_t element_bytes = 0;
  std::set<size_t> packs = {};  // StoreTail::packs

  std::string base() const;               // register: the output's address
  std::string operand(size_t i) const;    // register: an operand's address
  std::string parameter(size_t i) const;  // .param variable: appended to a kernel or function
  std::string base_parameter() const;     // of a function
  std::string clone(std::string_view name, size_t body) const;
  // The function that a store of so many elements calls, and how many it takes.
  std::string tail(size_t elements) const;
  size_t at_once(size_t elements) const { return packs.contains(elements) ? elements : 1; }
  // ".b32" or ".b64": what the tail takes and gives.
  std::string_view word() const { return element_bytes == 8 ? ".b64" : ".b32"; }
};

// How many elements the store has.
size_t elements_of(const Instruction& store, uint32_t element_bytes);

// ".extern .func (.param .b32 ...) NAME (...);", of a store of so many elements.
std::string tail_declaration(const TailNames& names, size_t elements);

// REQUIRES: a store that an analysis gave.
std::string store_text(const Module& module, const Step& store, const TailNames& names);

}  // namespace attacca::ptx
