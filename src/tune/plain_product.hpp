// A product that is right for every dtype, stride and alignment, and slow: what the unfused path
// uses where the vendor library is missing or refuses.
#pragma once

#include "tune/cublaslt.hpp"
#include "tune/toolbox.hpp"

namespace attacca::tune {

class PlainProduct {
 public:
  // Errors: a dtype that no kernel stores (fp8 results).
  static Result<PlainProduct> make(const std::shared_ptr<Toolbox>& toolbox,
                                   const Multiplication& problem);
  // Pointers are of the first elements (View::offset applied).
  Status launch(const void* a, const void* b, void* d, jit::StreamHandle stream) const;

 private:
  PlainProduct(jit::Module module, jit::Function function, const Multiplication& problem)
      : module_(std::move(module)), function_(function), problem_(problem) {}

  jit::Module module_;
  jit::Function function_;
  Multiplication problem_;
};

}  // namespace attacca::tune
