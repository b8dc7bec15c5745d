// The text that replaces a store: each of its elements goes through the tail and is then stored.
#pragma once

#include <map>
#include <string>
#include <unordered_map>

#include "ptx/analysis/function_code.hpp"
#include "ptx/analysis/store_groups.hpp"
#include "ptx/analysis/store_tail.hpp"

namespace attacca::ptx {

// The names that a fused kernel adds to the user's.
struct TailNames {
  std::string prefix;    // "tail_": fresh
  std::string function;  // the tail's
  size_t operands = 0;
  uint32_t element_bytes = 0;
  std::map<size_t, StorePack> packs = {};  // StoreTail::packs

  std::string base() const;               // register: the output's address
  std::string operand(size_t i) const;    // register: an operand's address
  std::string parameter(size_t i) const;  // .param variable: appended to a kernel or function
  std::string base_parameter() const;     // of a function
  std::string apart() const;              // register: whether something is not aligned to vectors
  std::string clone(std::string_view name, size_t body) const;
  // The functions that a store of so many elements calls.
  std::string tail(size_t elements) const;
  std::string fetch(size_t elements, bool is_apart) const;
  // Null: the store calls the function of one element for each.
  const StorePack* pack(size_t elements) const;
  // The registers of operands that store number i of a function waits for.
  std::string fetched(size_t store) const;
  // ".b32" or ".b64": what the tail takes and gives.
  std::string_view word() const { return element_bytes == 8 ? ".b64" : ".b32"; }
};

// How many elements the store has.
size_t elements_of(const Instruction& store, uint32_t element_bytes);

// ".extern .func (.param .b32 ...) NAME (...);" by name: all that stores of so many elements call.
std::map<std::string, std::string> tail_declarations(const TailNames& names, size_t elements);

// The stores of a function by number.
using StoreNumbers = std::unordered_map<const Step*, size_t>;

// Loads the operands of a group's stores. Empty if it has none.
std::string fetch_text(const Module& module, const StoreGroup& group, const StoreNumbers& numbers,
                       const TailNames& names);

// REQUIRES: a store that an analysis gave.
std::string store_text(const Module& module, const Step& store, size_t number,
                       const TailNames& names);

}  // namespace attacca::ptx
