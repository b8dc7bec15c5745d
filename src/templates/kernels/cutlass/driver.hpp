// The functions of the CUDA driver and runtime that CUTLASS's host code calls, so that builders
// link with neither library. Tensor maps are encoded by the function that attacca_templates_open
// was given; the other functions return that there is no device. Include this before CUTLASS.
#pragma once

#include <cuda.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <device_launch_parameters.h>
#include <dlfcn.h>

#include "host/record.hpp"

// CUTLASS makes tensor maps only if nvcc compiles it, so this claims to be nvcc of CUDA 13. wmma.h
// is included before, because a host compiler cannot read it afterwards. The device functions
// declared here are those that CUTLASS names in templates that no builder uses.
#include <cutlass/arch/wmma.h>
#define __CUDACC_VER_MAJOR__ 13
#define __CUDACC_VER_MINOR__ 0
#define CUTLASS_ENABLE_DIRECT_CUDA_DRIVER_CALL
int __dp4a(int, int, int);
unsigned __byte_perm(unsigned, unsigned, unsigned);
template <class T>
T __hfma2(T, T, T);
template <class T>
T __shfl_up_sync(unsigned, T, unsigned, int = 32);
template <class T>
T __shfl_down_sync(unsigned, T, unsigned, int = 32);
template <class T>
T __shfl_xor_sync(unsigned, T, int, int = 32);
void __syncthreads();
void __syncwarp(unsigned = 0);
void __threadfence();
namespace cutlass::arch {
int SmId();
}

namespace attacca_cutlass {

// The first failure of an encoding since it was last cleared. CUTLASS does not report them.
inline thread_local CUresult encode_result = CUDA_SUCCESS;

// A function of the library that has the encoder, which is the driver except in tests.
inline void* beside_encoder(const char* name) {
  Dl_info info;
  if (!attacca_encode_tiled || !dladdr(attacca_encode_tiled, &info)) return nullptr;
  void* library = dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD);
  void* found = library ? dlsym(library, name) : nullptr;
  if (library) dlclose(library);
  return found;
}

}  // namespace attacca_cutlass

#define ATTACCA_DRIVER extern "C" __attribute__((weak, visibility("hidden")))

// An absent operand (NULL) keeps an empty map, which the kernel never uses.
ATTACCA_DRIVER CUresult CUDAAPI cuTensorMapEncodeTiled(
    CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank, void* address,
    const cuuint64_t* extents, const cuuint64_t* strides, const cuuint32_t* box,
    const cuuint32_t* element_strides, CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
    CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill) {
  using Encode = decltype(&cuTensorMapEncodeTiled);
  if (!address) return CUDA_SUCCESS;
  const CUresult result = attacca_encode_tiled
                              ? reinterpret_cast<Encode>(attacca_encode_tiled)(
                                    map, type, rank, address, extents, strides, box,
                                    element_strides, interleave, swizzle, promotion, fill)
                              : CUDA_ERROR_NOT_INITIALIZED;
  if (attacca_cutlass::encode_result == CUDA_SUCCESS) attacca_cutlass::encode_result = result;
  return CUDA_SUCCESS;
}

ATTACCA_DRIVER CUresult CUDAAPI cuTensorMapEncodeIm2col(
    CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*, const cuuint64_t*, const cuuint64_t*,
    const int*, const int*, cuuint32_t, cuuint32_t, const cuuint32_t*, CUtensorMapInterleave,
    CUtensorMapSwizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill) {
  return CUDA_ERROR_NOT_SUPPORTED;
}

// CUTLASS changes the maps of small tensors for drivers up to 13.1.
ATTACCA_DRIVER cudaError_t cudaDriverGetVersion(int* version) {
  static const int found = [] {
    int result = 0;
    if (auto ask = reinterpret_cast<CUresult (*)(int*)>(
            attacca_cutlass::beside_encoder("cuDriverGetVersion")))
      ask(&result);
    return result;
  }();
  *version = found;
  return cudaSuccess;
}
ATTACCA_DRIVER cudaError_t cudaGetDevice(int*) {
  return cudaErrorNoDevice;
}
ATTACCA_DRIVER cudaError_t cudaDeviceGetAttribute(int*, cudaDeviceAttr, int) {
  return cudaErrorNoDevice;
}
ATTACCA_DRIVER cudaError_t cudaGetLastError() {
  return cudaErrorNoDevice;
}
