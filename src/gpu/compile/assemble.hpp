// PTX to machine code: ptxas, else nvJitLink, else left to the driver.
//
// nvJitLink assembles for linking, and then ignores setmaxnreg ("to maintain compatibility across
// compilation units", ptxas -c says): the multiplying warps of Hopper kernels have 168 registers
// instead of 232, and some spill. So ptxas comes first unless it is the older one of both.
#pragma once

#include <string>
#include <vector>

#include "gpu/compile/compile.hpp"
#include "support/error.hpp"

namespace attacca::gpu {

enum class Assembler {
  NvJitLink,
  Ptxas,   // $ATTACCA_PTXAS, on PATH, or beside the CUDA libraries
  Driver,  // no assembler: the PTX is the image, which the driver assembles when it is loaded
};

struct AssemblerDescription {
  Assembler kind = Assembler::Driver;
  ToolDescription tool;  // "nvJitLink 13.0", "ptxas 13.0.88", "driver": part of every key
};
// The assembler that assemble() uses on this machine. $ATTACCA_ASSEMBLER (ptxas, nvjitlink, driver)
// chooses one.
Result<AssemblerDescription> describe_assembler();

// An image for Module::load. The assembler's log is in the error.
Result<std::vector<char>> assemble(const std::string& ptx, const std::string& arch);
Result<std::vector<char>> assemble(const std::string& ptx, const std::string& arch,
                                   const AssemblerDescription& assembler);

}  // namespace attacca::gpu
