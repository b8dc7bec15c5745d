// What the stores of a fused kernel call.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace attacca::ptx {

// The function that every stored element goes through:
//
//   extern "C" __device__ WORD NAME(WORD value, unsigned long long index, const void* operand0,
//   ...)
//
// It has no effect but its result: it is also called where the store's predicate is false, for the
// first elements (an index below 64). WORD is unsigned int (elements of at most 4 bytes,
// zero-extended) or unsigned long long.
//
// A store of so many elements as `packs` has uses two functions instead. The first loads what the
// operands have for the elements from `index` on, as `words` words of 32 bits, and may be called
// before the values are known; without words there is none:
//
//   extern "C" __device__ FETCHED NAME_fetch_4(unsigned long long index, const void* operand0, ...)
//   extern "C" __device__ WORDS NAME_4(WORDS values, FETCHED fetched)
struct StorePack {
  size_t words = 0;
  // NAME_fetch_4 needs an index that is a multiple of 4, and wide_operands aligned to 16 bytes or
  // more; NAME_fetch_4_apart, of the same signature, does not.
  bool is_wide = false;
};
struct StoreTail {
  std::string function = "attacca_tail";
  std::vector<std::string> operands;  // a pointer each
  std::map<size_t, StorePack> packs = {};
  // The most threads of a block of the kernel. Given to ptxas (.maxntid) if the kernel does not
  // give it, or ptxas would use more registers than there are for so many threads. 0: unknown.
  uint32_t threads = 0;
  std::vector<size_t> wide_operands = {};
  // How many registers the operands of stores may wait in at once.
  size_t waiting_words = 32;
  // How many blocks of the kernel a multiprocessor shall hold at least (.minnctapersm), if the
  // kernel says nothing of it. 0: unknown.
  uint32_t blocks = 0;
};

}  // namespace attacca::ptx
