// Where the operands of a fused kernel's stores are loaded: those of several stores at once, behind
// the kernel's own last loads where that is possible, so that their latencies pass together.
#pragma once

#include <cstddef>
#include <vector>

#include "ptx/analysis/function_code.hpp"

namespace attacca::ptx {

struct StoreGroup {
  const Step* before = nullptr;  // they are loaded in front of this instruction
  std::vector<const Step*> stores;
  // What computes the stores' addresses and predicates between there and the stores, in order. It
  // computes the same at `before`, in other registers.
  std::vector<const Step*> again;
};

struct WaitingStore {
  const Step* step = nullptr;
  size_t words = 0;  // of its operands
};

// Every store of `stores`, which are in the order of the text, is in one group, of at most
// `most_words` words if it has several stores.
std::vector<StoreGroup> group_stores(const Module& module, const FunctionCode& code,
                                     const std::vector<WaitingStore>& stores, size_t most_words);

}  // namespace attacca::ptx
