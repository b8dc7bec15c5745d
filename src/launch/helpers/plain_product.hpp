// A slow product for every dtype, stride and alignment. The unfused path uses it if the vendor
// library is missing or refuses the product.
#pragma once

#include "launch/cublaslt.hpp"
#include "launch/helpers/source_kernel.hpp"

namespace attacca::launch {

class PlainProduct {
 public:
  // Errors: a dtype that no kernel stores (fp8 results).
  static Result<PlainProduct> make(const std::shared_ptr<Toolbox>& toolbox,
                                   const Multiplication& problem);
  // Addresses are of the first elements (View::offset applied).
  Status launch(const void* a, const void* b, void* d, gpu::StreamHandle stream) const;

 private:
  PlainProduct(SourceKernel kernel, const Multiplication& problem)
      : kernel_(std::move(kernel)), problem_(problem) {}

  SourceKernel kernel_;
  Multiplication problem_;
};

}  // namespace attacca::launch
