// Puts an epilogue before every store of a user's kernel to its output.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "ptx/analysis/kernel_analysis.hpp"
#include "ptx/analysis/store_tail.hpp"

namespace attacca::ptx {

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

// The most threads of a block that the kernel declares; 0: none.
uint32_t most_threads(const Module& module, const Function& kernel);
// Whether it declares how many registers a thread has, or how many blocks a multiprocessor holds.
bool says_blocks(const Module& module, const Function& kernel);

// `epilogue` defines tail.function. The other kernels of the module stay as they are.
// REQUIRES: an eligible analysis of this module.
Result<FusedKernel> fuse_stores(const Module& module, const Analysis& analysis,
                                const Module& epilogue, const StoreTail& tail);

}  // namespace attacca::ptx
