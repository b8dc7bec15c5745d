// A kernel that computes several problems in one launch. Its blocks are shared out along x: each
// sees the parameters of one problem, and its own place in the grid of that problem. It may await
// each problem's operands, which a copy engine or another GPU writes meanwhile, and report each
// problem's results.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "ptx/syntax/syntax.hpp"

namespace attacca::ptx {

// What the blocks of a problem await: that words, one after the other, are the value. A null
// address: nothing.
struct AwaitedWord {
  uint64_t address = 0;
  uint32_t value = 0;
  uint32_t most_ms = 0;  // after which time they trap; 0: never
  uint32_t count = 1;    // of the words
  uint32_t unused = 0;
};

// What the last block of a problem to finish does: it makes the word the value, after all that the
// problem's blocks wrote. They count each other in `counter`, a u32 that is 0 before the launch and
// behind it. A null address: nothing.
struct ReportedWord {
  uint64_t address = 0;
  uint64_t counter = 0;
  uint32_t value = 0;
  uint32_t unused = 0;
};

struct Signals {
  AwaitedWord awaited;
  ReportedWord reported;
};

// The one parameter of such a kernel: those of the problems, one after the other, then for each
// problem a u32, the number of blocks along x of it and of those before it, then, if it has
// signals, the Signals of each problem.
struct SeveralParameters {
  size_t stride = 0;      // bytes from the parameters of a problem to the next one's
  size_t ends_at = 0;     // where the numbers of blocks begin
  size_t signals_at = 0;  // where the signals begin; 0: there are none
  size_t bytes = 0;
};
// `bytes`, `alignment`: of the parameter of the kernel for one problem.
SeveralParameters parameters_of_several(size_t bytes, size_t alignment, size_t problems,
                                        bool has_signals = false);

// What a kernel's parameters may take, since PTX 8.1 and CUDA 12.1, on sm_70 and later.
inline constexpr size_t kMostParameterBytes = 32764;

// `kernel` with its entry changed so that it computes `problems` problems, at least two. The grids
// of all problems must be equal along y and z, and begin with whole clusters along x.
//
// If it has signals, no thread of a block does anything before it has seen the word that its
// problem awaits; then it sees all that was written before the word, by TMA too. So blocks that
// await must not keep from running what writes the words. All threads of a block must come to the
// end of the entry.
//
// Errors: an entry with another number of parameters than one, or one that reads which cluster of
// the grid it runs in; for signals, a target before sm_70, a parameter aligned to less than 8, or
// an entry that ends in several places.
Result<std::string> compute_several(const Module& kernel, std::string_view entry, size_t problems,
                                    bool has_signals = false);

}  // namespace attacca::ptx
