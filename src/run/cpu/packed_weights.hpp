// Weights packed for multiplication, shared by plans over the same tensors.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "ir/graph/tensor.hpp"

namespace attacca::run {

struct PackedBatch;
struct PackedRequest;

// Plans that are compiled with the same PackedWeights (CpuOptions::packed) share one packed copy of
// a weight, if they multiply by it in the same way. It keeps the tensors that were packed alive.
// Thread-safe.
class PackedWeights {
 public:
  PackedWeights();
  ~PackedWeights();
  PackedWeights(const PackedWeights&) = delete;
  PackedWeights& operator=(const PackedWeights&) = delete;

  // The matrix that was added for an equal request, else null.
  std::shared_ptr<const PackedBatch> find(const PackedRequest& request) const;
  void add(const PackedRequest& request, ir::Tensor source,
           std::shared_ptr<const PackedBatch> packed);
  size_t size() const;  // packed matrices

 private:
  struct Entry;
  mutable std::mutex mutex_;
  std::vector<Entry> entries_;
};

}  // namespace attacca::run
