// A kernel that copies the rows of a matrix that an index names. Negative indices count from the
// last row; all bytes of a row that does not exist are 0xff, which is NaN in every float.
#pragma once

#include "launch/helpers/source_kernel.hpp"
#include "problem/problem.hpp"

namespace attacca::launch {

// Rows of `columns` elements each, of which the matrix has `extent`; to [rows, columns].
struct RowGather {
  int64_t rows = 0, columns = 0, extent = 0;
  problem::View from, index, to;
};

class GatherRows {
 public:
  // Errors: an index of a dtype that is no integer.
  static Result<GatherRows> make(const std::shared_ptr<Toolbox>& toolbox, const RowGather& gather);
  // Addresses are of the first elements (View::offset applied).
  Status launch(const void* from, const void* index, void* to, gpu::StreamHandle stream) const;

 private:
  GatherRows(SourceKernel kernel, const RowGather& gather, int64_t width)
      : kernel_(std::move(kernel)), gather_(gather), width_(width) {}

  SourceKernel kernel_;
  RowGather gather_;
  int64_t width_;  // elements that are copied at once
};

}  // namespace attacca::launch
