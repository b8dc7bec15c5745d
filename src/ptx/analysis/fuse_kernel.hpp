// Puts an epilogue before every store of a user's kernel to its output.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "ptx/analysis/kernel_analysis.hpp"

namespace attacca::ptx {

// The function that every stored element goes through:
//
//   extern "C" __device__ WORD NAME(WORD value, unsigned long long index, const void* operand0,
//   ...)
//
// It has no effect but its result: it is also called where the store's predicate is false, for the
// first elements (an index below 64). WORD is unsigned int (elements of at most 4 bytes,
// zero-extended) or unsigned long long.
struct StoreTail {
  std::string function = "attacca_tail";
  std::vector<std::string> operands;  // a pointer each
  // NAME_4 takes and gives a struct of 4 WORDs, the index being that of the first: the numbers of
  // elements of a store for which there is such a function.
  std::set<size_t> packs = {};
  // The most threads of a block of the kernel. Given to ptxas (.maxntid) if the kernel does not
  // give it, or ptxas would use more registers than there are for so many threads. 0: unknown.
  uint32_t threads = 0;
};

struct AppendedParameter {
  std::string operand;    // of StoreTail::operands
  std::string parameter;  // its name in the PTX
  size_t index = 0;       // among the kernel's parameters
  friend bool operator==(const AppendedParameter&, const AppendedParameter&) = default;
};

struct FusedKernel {
  std::string ptx;
  std::vector<AppendedParameter> appended;  // in order, behind the kernel's own
  size_t stores = 0;                        // that were replaced
};

// How many elements the stores have, each number once.
std::set<size_t> elements_of_stores(const Analysis& analysis);

// `epilogue` defines tail.function. The other kernels of the module stay as they are.
// REQUIRES: an eligible analysis of this module.
Result<FusedKernel> fuse_stores(const Module& module, const Analysis& analysis,
                                const Module& epilogue, const StoreTail& tail);

}  // namespace attacca::ptx
