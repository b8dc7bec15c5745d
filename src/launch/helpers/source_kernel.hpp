// A helper kernel: CUDA C++ text, compiled to a module through the toolbox and the cache on disk,
// and launched with typed parameters.
#pragma once

#include <array>
#include <memory>
#include <string>

#include "launch/toolbox.hpp"

namespace attacca::launch {

class SourceKernel {
 public:
  // The threads of a block of any helper kernel.
  static constexpr uint32_t kThreads = 256;
  // `source`: CUDA C++, to be compiled behind kDeviceTypes. It defines `entry`, extern "C".
  // `contract`: whether a * b + c may become one fma.
  static Result<SourceKernel> make(const std::shared_ptr<Toolbox>& toolbox,
                                   const std::string& entry, const std::string& source,
                                   bool contract = false);

  // The grid for `work` blocks that a grid of any size walks with a stride: at most as many blocks
  // as keep the device busy.
  uint32_t blocks(int64_t work) const;

  // The parameters must have the types and the order of the kernel's. Launches nothing if the grid
  // is empty.
  template <class... Parameters>
  Status launch(const std::array<uint32_t, 3>& grid, gpu::StreamHandle stream,
                const Parameters&... parameters) const {
    if (grid[0] == 0 || grid[1] == 0 || grid[2] == 0) return {};
    void* addresses[] = {const_cast<Parameters*>(&parameters)...};
    return kernel_->function.launch({grid, {kThreads, 1, 1}}, stream, addresses);
  }

 private:
  SourceKernel(std::shared_ptr<Toolbox> toolbox, std::shared_ptr<const Kernel> kernel)
      : toolbox_(std::move(toolbox)), kernel_(std::move(kernel)) {}

  std::shared_ptr<Toolbox> toolbox_;
  std::shared_ptr<const Kernel> kernel_;
};

}  // namespace attacca::launch
