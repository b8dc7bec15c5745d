// From text to a loaded kernel: the CUDA libraries, opened at run time, and the cache of cubins.
// driver.hpp: the driver's functions. compile.hpp: NVRTC. assemble.hpp: PTX to cubin. cache.hpp:
// the disk. build() is the whole pipeline of one kernel.
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
  epilogue::Epilogue epilogue;  // its order of inputs and outputs is that of the arguments
  epilogue::Binding binding;
  ir::Mode mode = ir::Mode::Fp32;
  std::vector<std::string> includes;
  // The device's, such as 90. A template of an older arch is assembled for it. 0: the template's.
  int capability = 0;
  size_t problems = 1;       // that one launch computes (ptx/splice/several.hpp)
  bool has_signals = false;  // signals of each of them
};

// The seconds of each step. load: the cache's; on a hit the others are zero.
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

// Its key in the cache: one fact on each line, never a shape.
Result<std::string> cache_key(const KernelRequest& request, const Toolchain& toolchain = {});

}  // namespace attacca::gpu
