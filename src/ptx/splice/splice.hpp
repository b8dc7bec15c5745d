// Filling the hole of a kernel template: docs/ptx-splice.md says what is handled and why.
//
// Where to read: splice.cpp has all steps; signature.hpp compares the two sides; param_uses.hpp
// finds the calls; slots.hpp makes registers of .param variables; body.hpp writes the body that
// replaces a call; carry.hpp copies what the body refers to; names.hpp renames.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "ptx/syntax/syntax.hpp"

namespace attacca::ptx {

struct Spliced {
  std::string ptx;
  size_t calls = 0;  // that were replaced
};

// Replaces every call of the function `hole`, which `kernel` declares but does not define, by the
// body of the function of that name in `epilogue`. No call and no declaration of it remains. The
// rest of the kernel stays byte for byte.
Result<Spliced> splice(const Module& kernel, const Module& epilogue, std::string_view hole);

}  // namespace attacca::ptx
