// The functions of the stand-in for libcuda.so.1 that tests call, found by dlsym.
#pragma once

#include <cstdlib>
#include <dlfcn.h>

extern "C" {
// Forgets the calls and failures.
void fake_cuda_reset();
// The call of this number from now on (from 0) does nothing and returns the code.
void fake_cuda_fail(int call, int code);
// Launches note the bits of so many parameters, of these sizes in bytes, besides: "8 8 4 8".
void fake_cuda_watch(const char* sizes);
// While it is not 0, launches, fills, copies on the device and questions for the context do nothing
// and are not noted: they allocate nothing.
void fake_cuda_be_quiet(int quiet);
// The calls since the reset, one a line: the symbol, then what matters of the arguments.
const char* fake_cuda_calls();
int fake_cuda_call_count();
// Objects and contexts that were made and not yet given back, and blocks of memory among them.
int fake_cuda_live();
int fake_cuda_blocks();
// While it is not 0, calls with a stream note it at their end: " on 0x1230".
void fake_cuda_name_streams(int name);
// From now on the device has so much memory; what is allocated now.
size_t fake_cuda_limit(size_t bytes);
// While it is not 0, copies fail whose device memory is not that of an allocation.
void fake_cuda_check_memory(int check);
}

namespace attacca {

// The stand-in's function of this name and type.
template <class F>
F* fake(const char* name) {
  static void* library = dlopen(std::getenv("ATTACCA_LIBCUDA"), RTLD_NOW);
  return reinterpret_cast<F*>(dlsym(library, name));
}

}  // namespace attacca
