// Parts of a plan that one launch computes, as in the public interface.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "api/tensor.hpp"
#include "run/parts/parts.hpp"
#include "run/pipeline.hpp"

namespace attacca::api {

// Immutable; keeps what it needs of its plan.
class Parts {
 public:
  // `inputs`, `outputs`: of one part.
  Parts(std::shared_ptr<const run::Compiled> compiled, std::vector<Tensor> inputs,
        std::vector<Tensor> outputs, std::shared_ptr<const run::CudaParts> parts);

  const launch::Candidate& candidate() const { return parts_->candidate(); }
  bool may_be_absent(size_t input) const { return parts_->may_be_absent(input); }

  // As attacca_parts_run (attacca.h); `awaited`, `reported`: one for each part, or none.
  Status run(std::span<const void* const> inputs, std::span<void* const> outputs,
             std::span<const ptx::AwaitedWord> awaited, std::span<const ptx::ReportedWord> reported,
             void* stream) const;

 private:
  std::shared_ptr<const run::Compiled> compiled_;
  std::vector<Tensor> inputs_, outputs_;
  std::shared_ptr<const run::CudaParts> parts_;
};

}  // namespace attacca::api
