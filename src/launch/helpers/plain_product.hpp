// A product that is right for every dtype, stride and alignment, and slow: what the unfused path
// uses where the vendor library is missing or refuses.
#pragma once

#include "launch/cublaslt.hpp"
#include "launch/toolbox.hpp"

namespace attacca::launch {

class PlainProduct {
 public:
  // Errors: a dtype that no kernel stores (fp8 results).
  static Result<PlainProduct> make(const std::shared_ptr<Toolbox>& toolbox,
                                   const Multiplication& problem);
  // Pointers are of the first elements (View::offset applied).
  Status launch(const void* a, const void* b, void* d, gpu::StreamHandle stream) const;

 private:
  PlainProduct(gpu::Module module, gpu::Function function, const Multiplication& problem)
      : module_(std::move(module)), function_(function), problem_(problem) {}

  gpu::Module module_;
  gpu::Function function_;
  Multiplication problem_;
};

}  // namespace attacca::launch
