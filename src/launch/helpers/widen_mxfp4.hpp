// A kernel that widens weights in MXFP4 (ir/interpret/mxfp4.hpp) to bf16.
#pragma once

#include "launch/helpers/source_kernel.hpp"

namespace attacca::launch {

class WidenMxFp4 {
 public:
  static Result<WidenMxFp4> make(const std::shared_ptr<Toolbox>& toolbox);
  // `count` weights, a multiple of 32, that follow each other in memory.
  Status launch(const void* codes, const void* scales, void* to, int64_t count,
                gpu::StreamHandle stream) const;

 private:
  explicit WidenMxFp4(SourceKernel kernel) : kernel_(std::move(kernel)) {}

  SourceKernel kernel_;
};

}  // namespace attacca::launch
