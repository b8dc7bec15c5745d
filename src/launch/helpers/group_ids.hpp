// A kernel that writes the number of each row's group (ir/interpret/groups.hpp).
#pragma once

#include "launch/helpers/source_kernel.hpp"

namespace attacca::launch {

class GroupIds {
 public:
  static Result<GroupIds> make(const std::shared_ptr<Toolbox>& toolbox);
  // Writes s32 [rows]. `ends`: s32, `groups` of them, `stride` elements apart.
  Status launch(const void* ends, int64_t groups, int64_t stride, void* to, int64_t rows,
                gpu::StreamHandle stream) const;

 private:
  explicit GroupIds(SourceKernel kernel) : kernel_(std::move(kernel)) {}

  SourceKernel kernel_;
};

}  // namespace attacca::launch
