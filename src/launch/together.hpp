// Several problems that one launch of one template computes. Each block computes a part of one of
// them (ptx/splice/several.hpp), so that problems too small to fill the device fill it together.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "launch/candidate.hpp"
#include "launch/runnable.hpp"
#include "ptx/splice/several.hpp"

namespace attacca::launch {

// Parameters in a kernel's constant memory limit it.
inline constexpr size_t kMostTogether = 8;

// Why no launch of this template computes several problems of this class; nothing: one does.
std::optional<std::string> reason_against_several(const problem::Problem& problem,
                                                  const templates::Template& kernel);

// Takes the addresses of all problems, one_after_another(). Errors: a kernel that does not build.
// REQUIRES: 2 to kMostTogether problems with the same m, k, epilogue, dtypes and mode, one product
// or one gate each, no batches; a candidate with a binding that legality() gave for each of them,
// and a template that reason_against_several() has nothing against.
Result<std::unique_ptr<Runnable>> make_together(const std::shared_ptr<Toolbox>& toolbox,
                                                std::vector<problem::Problem> problems,
                                                const Candidate& candidate);

// A launch of several problems that awaits a word for each problem before it reads the problem's
// operands, and reports by another one that the problem's results are written.
class Awaiting {
 public:
  virtual ~Awaiting() = default;
  // As Runnable::launch. `signals`: one for each problem. Blocks of earlier problems start earlier.
  virtual Status launch_awaiting(const Addresses& at, std::span<const ptx::Signals> signals,
                                 gpu::StreamHandle stream) const = 0;
};
Result<std::unique_ptr<Awaiting>> make_awaiting(const std::shared_ptr<Toolbox>& toolbox,
                                                std::vector<problem::Problem> problems,
                                                const Candidate& candidate);

// A launch for each, of which launch::prepare() made the runnables: what make_together() is
// compared with.
std::unique_ptr<Runnable> one_by_one(const std::vector<problem::Problem>& problems,
                                     std::vector<std::unique_ptr<Runnable>> runnables);

}  // namespace attacca::launch
