// Whether a hole and the function that fills it agree.
#pragma once

#include <string>

#include "ptx/syntax/syntax.hpp"

namespace attacca::ptx {

// "(.b32, .b8[8]) -> .f32", for messages.
std::string describe_signature(const Function& function);

// Equal counts, and pairwise equal sizes; a float where the other has an integer is an error, too,
// where both say what they are.
Status check_signatures(const Module& kernel, const Function& hole, const Module& epilogue,
                        const Function& filling);

// The ISA version that runs both, as text such as "9.0". Errors: another target or address size.
Result<std::string> common_version(const Module& kernel, const Module& epilogue);

}  // namespace attacca::ptx
