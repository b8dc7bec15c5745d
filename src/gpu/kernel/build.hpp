// From text to a loaded kernel: the CUDA libraries, opened at run time, and the cache of cubins.
// driver.hpp: the driver's functions. compile.hpp: NVRTC. assemble.hpp: PTX to cubin. cache.hpp:
// the disk. This file is the whole way for one kernel.
#pragma once

#include <string>
#include <vector>

#include "epilogue/hole.hpp"
#include "gpu/cache/cache.hpp"
#include "gpu/compile/toolchain.hpp"
#include "support/error.hpp"
#include "templates/template.hpp"

namespace attacca::gpu {

// Everything that a kernel's machine code depends on; never a shape.
struct KernelRequest {
  const templates::Template* kernel = nullptr;
  ir::DType a_type = ir::DType::BF16, b_type = ir::DType::BF16;
  epilogue::Epilogue epilogue;  // canonical
  epilogue::Binding binding;
  ir::Mode mode = ir::Mode::Fp32;
  std::vector<std::string> includes;
  // The device's, such as 90: what a template of an older arch is assembled for. 0: the template's.
  int capability = 0;
};

// Where the time went, in seconds. load: what the cache took; on a hit all else is zero.
struct CompileTimes {
  double emit = 0, nvrtc = 0, splice = 0, assemble = 0, load = 0;
  bool cached = false;
};

struct Cubin {
  Bytes bytes;         // for Module::load; of the cache
  std::string kernel;  // the entry's name
  CompileTimes times;
};

// Emits, compiles, splices and assembles, or takes it from the cache. Needs no GPU: NVRTC and an
// assembler (assemble.hpp).
Result<Cubin> build(const KernelRequest& request);
Result<Cubin> build(const KernelRequest& request, Cache& cache, const Toolchain& toolchain = {});

// What the cache finds it by: one fact a line, never a shape.
Result<std::string> cache_key(const KernelRequest& request, const Toolchain& toolchain = {});

}  // namespace attacca::gpu
