// The generated source's entries for the test: entry i runs case i.
#pragma once

#include <cstdint>

using EmitCall = void (*)(const uint32_t* words, int row, int column, int batch,
                          const void* context, uint32_t* results);
extern EmitCall const kEmitCalls[];
// The signs of the errors of exp2, and of reciprocals and quotients, in the generated code.
void set_approximations(double exp2_error, double rcp_error);
