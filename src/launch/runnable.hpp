// A candidate made ready for a problem: kernels loaded, everything but addresses decided.
#pragma once

#include <memory>

#include "launch/toolbox.hpp"
#include "problem/problem.hpp"

namespace attacca::launch {

using problem::Addresses;

// As many addresses as views, all null.
inline Addresses no_addresses(const problem::Operands<problem::View>& views) {
  return map([](const problem::View&) -> void* { return nullptr; }, views);
}

// Immutable; launch() may be called from several threads at once, each with its own workspace.
class Runnable {
 public:
  virtual ~Runnable() = default;
  virtual size_t workspace_bytes() const = 0;
  // Puts the work on the stream; allocates nothing, on the host neither unless other threads launch
  // it at the same time, and waits for nothing, so it can be captured. `workspace`:
  // workspace_bytes() on the device, aligned to 256 bytes, not in use by another launch at the same
  // time. The device must be current.
  virtual Status launch(const Addresses& at, void* workspace, gpu::StreamHandle stream) const = 0;
};

}  // namespace attacca::launch
