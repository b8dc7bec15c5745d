// The CUDA driver, opened at run time: its functions, every failure as an Error, and an owner for
// each kind of thing that it gives. device.hpp builds on this.
//
// Functions that allocate, load or launch make their device's primary context current for the
// calling thread, and leave it current.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "gpu/driver/library.hpp"
#include "support/error.hpp"

namespace attacca::gpu {

// The driver's handles. The structs have names of our own, so that cuda.h is not needed.
using DeviceHandle = int;
using DevicePointer = uint64_t;
using ContextHandle = struct DriverContext*;
using ModuleHandle = struct DriverModule*;
using FunctionHandle = struct DriverFunction*;
using StreamHandle = struct DriverStream*;  // a CUstream; nullptr: the default stream
using EventHandle = struct DriverEvent*;
using GraphHandle = struct DriverGraph*;
using GraphExecHandle = struct DriverGraphExec*;

// CUlaunchAttribute and CUlaunchConfig.
struct LaunchAttribute {
  int id = 0;
  int padding = 0;
  int value = 0;
  int rest[15] = {};
};
struct LaunchConfig {
  unsigned grid[3], block[3];
  unsigned shared_bytes;
  StreamHandle stream;
  const LaunchAttribute* attributes;
  unsigned attribute_count;
};
inline constexpr int kProgrammaticStreamSerialization = 6;

template <class... Parameters>
struct DriverFunctionEntry {
  const char* symbol;
  int (*function)(Parameters...) = nullptr;
};

class Driver {
 public:
  // Opened and initialised by the first call that succeeds. Errors: no libcuda, no usable device, a
  // driver that is too old.
  static Result<const Driver*> get();

  // member.function(...) gives a CUresult; call() turns it into a Status.
#define FUNCTION(member, symbol, ...) DriverFunctionEntry<__VA_ARGS__> member{symbol};
#include "gpu/driver/driver_functions.def"
#undef FUNCTION

  // driver.call(driver.mem_free, pointer)
  template <class... Parameters, class... Arguments>
  Status call(const DriverFunctionEntry<Parameters...>& entry, Arguments... arguments) const {
    const int code = entry.function(arguments...);
    if (code == 0) return {};
    return tl::make_unexpected(error(entry.symbol, code));
  }
  // "cuMemAlloc_v2: CUDA_ERROR_OUT_OF_MEMORY (2): out of memory"
  Error error(const char* symbol, int code) const;

  int version() const {
    return version_;
  }  // 13000 for CUDA 13.0: the newest it supports
  const std::string& path() const {
    return path_;
  }
  // cuTensorMapEncodeTiled for templates::Catalog::open; nullptr where the driver has none.
  void* encode_tiled() const {
    return encode_tiled_;
  }

 private:
  static Result<Driver> open();

  std::string path_;
  int version_ = 0;
  void* encode_tiled_ = nullptr;
};

}  // namespace attacca::gpu
