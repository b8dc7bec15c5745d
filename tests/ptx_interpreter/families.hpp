// Instructions by family. Each gives nullopt for opcodes of others.
#pragma once

#include <optional>

#include "ptx_interpreter/operands.hpp"

namespace attacca::ptx_interpreter {

using Decoded = Result<std::optional<Step>>;

Decoded decode_arithmetic(const ptx::Instruction& instruction, Operands& operands);
Decoded decode_memory(const ptx::Instruction& instruction, Operands& operands);
Decoded decode_warp(const ptx::Instruction& instruction, Operands& operands);

}  // namespace attacca::ptx_interpreter
