// A slow grouped product for every dtype, stride and alignment. The unfused path uses it if no
// template computes the product.
#pragma once

#include <optional>

#include "launch/helpers/source_kernel.hpp"
#include "problem/problem.hpp"

namespace attacca::launch {

// D [m, n] = A [m, k], each row times the matrix of its group of B (ir/interpret/groups.hpp).
struct GroupedMultiplication {
  int64_t m = 0, n = 0, k = 0, groups = 0;
  problem::View a, b, d, ends;
  // f32, of blocks of problem::kScaleBlock.
  std::optional<problem::ScaleOperands<problem::View>> scales = {};
};

class PlainGrouped {
 public:
  // Errors: a dtype that no kernel stores (fp8 results).
  static Result<PlainGrouped> make(const std::shared_ptr<Toolbox>& toolbox,
                                   const GroupedMultiplication& problem);
  // Addresses are of the first elements (View::offset applied); those of scales are null where
  // there are none.
  Status launch(const void* a, const void* b, const void* ends, void* d,
                const problem::ScaleOperands<const void*>& scales, gpu::StreamHandle stream) const;

 private:
  PlainGrouped(SourceKernel kernel, const GroupedMultiplication& problem)
      : kernel_(std::move(kernel)), problem_(problem) {}

  SourceKernel kernel_;
  GroupedMultiplication problem_;
};

}  // namespace attacca::launch
