// NVRTC: CUDA C++ text to PTX.
#pragma once

#include <string>

#include "support/error.hpp"

namespace attacca::gpu {

struct CompileOptions {
  std::string arch;      // the .target of the PTX: sm_90a
  bool contract = true;  // whether a * b + c may become one fma; never in eager mode
  bool minimal = true;   // without textures and the device runtime, which takes a third less time
  std::string helper = {};  // the helper kernel that the source is; empty: an epilogue. For errors
};

// Self-contained device code. The compiler's log is in the error.
Result<std::string> compile(const std::string& source, const CompileOptions& options);

struct ToolDescription {
  std::string version;  // "NVRTC 13.0": part of every key
  std::string path;
};
Result<ToolDescription> describe_compiler();

}  // namespace attacca::gpu
