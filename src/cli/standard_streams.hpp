// Standard input, output and error, which a caller may have closed or connected to a full disk.
#pragma once

#include "support/error.hpp"

namespace attacca::cli {

// Opens a placeholder for each closed stream; otherwise the first files opened would get its number
// and be printed to. Writing to a placeholder fails.
void occupy_closed_streams();

// Flushes standard output. An error if not everything that was printed could be written. `earlier`:
// the errno of a print that failed, else 0.
Status flush_output(int earlier);

}  // namespace attacca::cli
