// Where the variables of a module lie.
#pragma once

#include <map>
#include <vector>

#include "ptx_interpreter/operands.hpp"

namespace attacca::ptx_interpreter {

using Places = std::map<const ptx::Variable*, Place>;

uint64_t aligned(uint64_t offset, uint64_t alignment);
uint64_t alignment_of(const ptx::Variable& variable);

// Global and constant variables get memory and their initial values; one whose initial value is
// more than numbers gets none. Shared ones, also those of functions, lie one after the other, the
// dynamic ones behind them all at *static_shared.
Places place_variables(const ptx::Module& module, Memory& memory, uint32_t* static_shared);

}  // namespace attacca::ptx_interpreter
