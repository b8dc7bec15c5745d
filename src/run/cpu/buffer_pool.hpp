// Memory for a plan's results and intermediates, recycled from run to run: fresh pages cost more
// than most epilogues.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>

#include "ir/graph/tensor.hpp"

namespace attacca::run {

// Thread-safe. A buffer is lent while any Tensor on it lives, so that two live results never share
// one; the buffers outlive the pool where they must.
class BufferPool {
 public:
  BufferPool();
  // Row-major, uninitialised. An error where the size overflows or memory runs out.
  Result<ir::Tensor> tensor(ir::DType dtype, std::vector<int64_t> shape);

 private:
  struct Shelf;
  std::shared_ptr<Shelf> shelf_;
};

}  // namespace attacca::run
