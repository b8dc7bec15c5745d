// NVRTC's functions.
#pragma once

#include <string>

#include "support/error.hpp"

namespace attacca::gpu {

using Program = struct NvrtcProgram*;

// The functions of NVRTC that Attacca calls. Each returns 0 or an error code.
struct Nvrtc {
  int (*version)(int* major, int* minor);
  int (*create)(Program*, const char* source, const char* name, int headers, const char* const*,
                const char* const*);
  int (*compile)(Program, int count, const char* const* options);
  int (*ptx_size)(Program, size_t*);
  int (*ptx)(Program, char*);
  int (*log_size)(Program, size_t*);
  int (*log)(Program, char*);
  int (*destroy)(Program*);
  int (*add_name)(Program, const char* expression);
  int (*lowered_name)(Program, const char* expression, const char** name);
  const char* (*error_text)(int);
  std::string path;
};

// Opened once.
Result<const Nvrtc*> open_nvrtc();

// sm_90a -> compute_90a: NVRTC then gives PTX and no cubin.
std::string virtual_arch(const std::string& arch);

std::string log_of(const Nvrtc& nvrtc, Program program);

// The program's PTX, once compiled.
Result<std::string> ptx_of(const Nvrtc& nvrtc, Program program);

struct ProgramOwner {
  const Nvrtc& nvrtc;
  Program program = nullptr;
  ~ProgramOwner() {
    if (program) nvrtc.destroy(&program);
  }
};

}  // namespace attacca::gpu
