// Kernels that widen weights in codes (ir/interpret/codes.hpp).
#pragma once

#include "ir/interpret/codes.hpp"
#include "launch/helpers/source_kernel.hpp"

namespace attacca::launch {

class WidenCodes {
 public:
  static Result<WidenCodes> make(const std::shared_ptr<Toolbox>& toolbox,
                                 const ir::CodeFormat& format);
  // `count` weights, in whole blocks, that follow each other in memory. `zeros`: null without zero
  // points.
  Status launch(const void* codes, const void* scales, const void* zeros, void* to, int64_t count,
                gpu::StreamHandle stream) const;

 private:
  WidenCodes(SourceKernel kernel, const ir::CodeFormat& format)
      : kernel_(std::move(kernel)), format_(format) {}

  SourceKernel kernel_;
  ir::CodeFormat format_;
};

}  // namespace attacca::launch
