// Compares the signatures of a hole and of the function that fills it.
#pragma once

#include <string>

#include "ptx/syntax/syntax.hpp"

namespace attacca::ptx {

// "(.b32, .b8[8]) -> .f32", for messages.
std::string describe_signature(const Function& function);

// Requires equal counts and pairwise equal sizes. If both types are known, a float for an integer
// is an error, too.
Status check_signatures(const Module& kernel, const Function& hole, const Module& epilogue,
                        const Function& filling);

// The ISA version that runs both, as text such as "9.0". Errors: another target or address size.
Result<std::string> common_version(const Module& kernel, const Module& epilogue);

}  // namespace attacca::ptx
