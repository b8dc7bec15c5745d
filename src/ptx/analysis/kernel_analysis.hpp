// Whether the epilogue of a user's kernel may join it at its stores: docs/user-kernels.md says what
// must hold and why. Start here; dataflow.hpp follows addresses, opcode_rules.def lists the opcodes
// that are allowed.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "ptx/analysis/analysis.hpp"

namespace attacca::ptx {

// The parameter that points to the output.
struct OutputSpec {
  std::string parameter;  // "kern_param_2", or its index: "2"
  uint64_t offset = 0;    // of the pointer in a struct passed by value
};

// "2", "kern_param_2", "args+16".
Result<OutputSpec> parse_output(std::string_view text);

// `entry` is the kernel's name in the PTX; pointers of the result point into the module, which must
// outlive it. Errors: no such kernel or parameter, a parameter that holds no pointer there.
Result<Analysis> analyse_output(const Module& module, std::string_view entry,
                                const OutputSpec& output, uint32_t element_bytes);

}  // namespace attacca::ptx
