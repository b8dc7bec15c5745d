// A kernel of the table with its epilogue spliced in, and what it must compute: the kernel, then
// the epilogue op by op, by the reference interpreter of graphs in eager mode.
#pragma once

#include <string>
#include <vector>

#include "gpu/kernel/user_kernel.hpp"
#include "ir/interpret/interpreter.hpp"
#include "kernels/arguments.hpp"

namespace attacca::kernels {

struct Fused {
  std::string ptx;  // of this kernel alone
  size_t stores = 0;
  gpu::Tail tail;
};

// Errors: also where the analysis refuses.
Result<Fused> fuse(const Kernel& kernel, ir::Mode mode = ir::Mode::Eager);

// Numbers for the epilogue's operands, in the order of the tail.
std::vector<ir::Tensor> operand_tensors(const Kernel& kernel, const gpu::Tail& tail, uint64_t seed,
                                        bool special);

// The epilogue applied to what the unfused kernel left in its output.
Result<ir::Tensor> apply_epilogue(const Kernel& kernel, const gpu::Tail& tail,
                                  const ir::Tensor& output, const std::vector<ir::Tensor>& operands,
                                  ir::Precision precision = ir::Precision::Eager);

// Empty: the fused kernel's buffers are the unfused kernel's, but for its output, which went
// through the epilogue in eager mode. Bit for bit; an error of either run is a difference.
std::string compare_with_epilogue(const Kernel& kernel, const gpu::Tail& tail,
                                  const Result<std::vector<ir::Tensor>>& alone,
                                  const Result<std::vector<ir::Tensor>>& joined, size_t output,
                                  const std::vector<ir::Tensor>& operands);

}  // namespace attacca::kernels
