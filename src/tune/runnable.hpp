// A candidate made ready for a problem: kernels loaded, everything but addresses decided.
#pragma once

#include <memory>

#include "tune/candidate.hpp"
#include "tune/problem.hpp"
#include "tune/toolbox.hpp"

namespace attacca::tune {

// Immutable; launch() may be called from several threads at once, each with its own workspace.
class Runnable {
 public:
  virtual ~Runnable() = default;
  virtual size_t workspace_bytes() const = 0;
  // Puts the work on the stream; allocates nothing on the device and waits for nothing, so it can
  // be captured. `workspace`: workspace_bytes() on the device, aligned to 256 bytes, not in use by
  // another launch at the same time. Addresses must be as aligned as the problem says. The device
  // must be current.
  virtual Status launch(const Pointers& pointers, void* workspace,
                        jit::StreamHandle stream) const = 0;
};

// Errors: a candidate that does not fit the problem, a kernel that does not build. A problem
// without products or a user's kernel is one pointwise kernel, whatever the candidate.
Result<std::unique_ptr<Runnable>> prepare(const std::shared_ptr<Toolbox>& toolbox,
                                          const Problem& problem, const Candidate& candidate);

}  // namespace attacca::tune
