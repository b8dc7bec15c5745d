// What the fuzzer of plans' files, and the replay of its corpus, run on an input.
#pragma once

#include <string_view>

namespace attacca::fuzz {

// Refusing is the only failure allowed. The input is read as a file, and as the parts of one, with
// their sizes and checksum: "CONSTANT_BYTES KERNEL_BYTES\n", the header, the constants and the
// kernels; where the numbers do not fit, all of it is the header. A bundle in it that is read is
// what is written again.
void try_plan(std::string_view input);

}  // namespace attacca::fuzz
