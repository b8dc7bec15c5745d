// The result of the analysis of a user's kernel.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ptx/syntax/syntax.hpp"

namespace attacca::ptx {

// What a kernel does through one pointer that it is passed.
struct PointerUse {
  size_t parameter = 0;  // its index
  uint64_t offset = 0;   // in a struct passed by value
  std::string name;      // of the parameter, "+16" behind it in a struct
  bool is_output = false;
  bool read = false, written = false, atomics = false;
  bool escapes = false;  // stored, passed on, or used in computations that are not followed
};

struct Reason {
  // Stable, for programs: "read", "atomic", "reduction", "volatile", "partial-element", "escape",
  // "mixed", "opcode", "shuffle", "tma", "bulk-copy", "async-copy", "matrix-store",
  // "unknown-address", "parameter", "register-call", "indirect-call", "external-call", "recursion",
  // "debug", "never-stored", ...
  std::string rule;
  std::string what;   // one sentence
  std::string where;  // "kernel.cu:12" of -lineinfo, else "NAME:LINE:COLUMN" of the PTX
};

// One store through the output, in the kernel or in a copy of a function that it calls.
struct StoreSite {
  size_t body = 0;  // index into Analysis::bodies
  const Instruction* instruction = nullptr;
};

// A function in one chain of calls. The kernel itself is the first.
struct AnalysedBody {
  const Function* function = nullptr;
  struct Call {
    const Instruction* instruction = nullptr;
    size_t body = 0;
  };
  std::vector<Call> calls;  // of bodies that store through the output, directly or not
};

struct Analysis {
  std::vector<PointerUse> uses;  // in the order of the parameters
  std::vector<Reason> reasons;   // in the order of the text; none: eligible
  std::vector<StoreSite> stores;
  std::vector<AnalysedBody> bodies;
  size_t parameter = 0;  // of the output
  uint64_t offset = 0;
  uint32_t element_bytes = 0;

  bool eligible() const { return reasons.empty(); }
};

}  // namespace attacca::ptx
