// A user's own kernel, from CUDA C++ or PTX to one that its epilogue has joined.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "epilogue/code/tail_function.hpp"
#include "epilogue/epilogue.hpp"
#include "gpu/compile/toolchain.hpp"
#include "ir/graph/dtype.hpp"
#include "ir/graph/mode.hpp"
#include "ptx/analysis/fuse_kernel.hpp"

namespace attacca::gpu {

struct KernelSource {
  std::string text;                // CUDA C++
  std::string name = "kernel.cu";  // for messages and -lineinfo
  std::string kernel;              // "my::kern<float, 16>", or a name
  std::string arch = "sm_90a";
  std::vector<std::string> includes;  // folders; CUDA's own are found
  std::vector<std::string> options;   // more of NVRTC's
};
struct KernelPtx {
  std::string ptx;
  std::string entry;  // the kernel's name there
};
// With -lineinfo.
Result<KernelPtx> compile_kernel(const KernelSource& source);

struct TailRequest {
  std::string epilogue;                   // "silu(out + row(bias)) * full(res)"
  ir::DType dtype{};                      // of the output, as the kernel stores it
  ir::DType result{};                     // as the fused kernel stores it: of equal size
  std::optional<ir::DType> operand = {};  // of operands that name none; none: dtype
  int64_t rows = 0, columns = 0;          // the output's shape
  ir::Mode mode = ir::Mode::Eager;
  uint32_t threads = 0;  // ptx::StoreTail::threads
};
struct Tail {
  std::string source;  // CUDA C++
  ptx::StoreTail signature;
  struct Operand {
    std::string name, role;  // "row", "col", "full", "scalar"
    ir::DType dtype{};
  };
  std::vector<Operand> operands;  // as signature.operands
  // To append to the source: the functions for so many elements at once.
  std::map<size_t, epilogue::TailPack> packs;
};
// The epilogue as the function that stores call.
Result<Tail> emit_tail(const TailRequest& request);

struct TailForm {
  int64_t rows = 0, columns = 0;  // the output's shape
  ir::Mode mode = ir::Mode::Eager;
  uint32_t threads = 0;  // ptx::StoreTail::threads
};
// `names`: of the inputs; empty: operand1, ... REQUIRES: no epilogue::tail_refusal.
Tail emit_tail(const epilogue::Epilogue& epilogue, const TailForm& form,
               const std::vector<std::string>& names = {});

// "sm_90a" of ".target sm_90a, texmode_independent".
std::string target_of(const ptx::Module& module);

// Compiles the tail for the module's target and splices it in. REQUIRES: an eligible analysis.
Result<ptx::FusedKernel> fuse_kernel(const ptx::Module& module, const ptx::Analysis& analysis,
                                     const Tail& tail, const Toolchain& toolchain = {});

}  // namespace attacca::gpu
