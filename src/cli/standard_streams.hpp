// Standard input, output and error, which a caller may have closed or connected to a full disk.
#pragma once

#include "support/error.hpp"

namespace attacca::cli {

// Puts something in the place of closed ones, or the first files opened would be printed to. What
// is written there still fails.
void occupy_closed_streams();

// The last of what is printed. An error: not all that was printed could be written. `earlier`: the
// errno of a print that failed, where there was one.
Status flush_output(int earlier);

}  // namespace attacca::cli
