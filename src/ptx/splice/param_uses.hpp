// How a function uses .param variables: the instructions that move registers in and out of them,
// and the calls that they are arguments of.
#pragma once

#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "ptx/syntax/syntax.hpp"

namespace attacca::ptx {

// One register, or immediate, of an ld.param or st.param.
struct ParamAccess {
  uint64_t offset = 0;         // bytes into the variable
  uint32_t bits = 0;           // moved
  bool is_signed = false;      // a wider register is filled with the sign
  std::string_view text;       // the register or immediate
  uint32_t register_bits = 0;  // 0: an immediate
  bool is_float = false;       // the register's type, which cvt.u32 refuses
};

struct ParamUse {
  const Instruction* instruction = nullptr;
  const Variable* variable = nullptr;
  bool is_store = false;
  std::vector<ParamAccess> accesses;  // several for .v2, .v4
};

struct ParamCall {
  const Instruction* call = nullptr;
  std::vector<const Variable*> results;
  std::vector<const Variable*> arguments;
};

struct ParamUses {
  std::vector<ParamUse> uses;                    // in the order of the text
  std::vector<ParamCall> calls;                  // of the function `callee`
  std::vector<const Declaration*> declarations;  // of .param variables in the body
  // Variables with any other use, and where that is.
  std::unordered_map<const Variable*, const Instruction*> escapes;
};

// REQUIRES: the function has a body. Pointers point into it and into its parameters.
Result<ParamUses> find_param_uses(const Module& module, const Function& function,
                                  std::string_view callee);

}  // namespace attacca::ptx
