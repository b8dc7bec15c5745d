#include "launch/prepare.hpp"

#include "launch/arguments.hpp"
#include "launch/before.hpp"
#include "launch/fused.hpp"
#include "launch/legality.hpp"
#include "launch/unfused.hpp"
#include "launch/user_kernel.hpp"
#include "support/reused.hpp"

namespace attacca::launch {
namespace {

// For a problem without elements: the results of reductions are 0.
class Nothing : public Runnable {
 public:
  Nothing(std::shared_ptr<Toolbox> toolbox, const problem::Problem& problem)
      : toolbox_(std::move(toolbox)), problem_(problem) {}
  size_t workspace_bytes() const override { return 0; }
  Status launch(const Addresses& at, void*, gpu::StreamHandle stream) const override {
    const gpu::Driver& driver = toolbox_->device().driver();
    for (size_t i = 0; i < at.outputs.size(); ++i) {
      if (problem_.epilogue.outputs[i].kind == epilogue::OutputKind::Store) continue;
      void* const reduced = first_element(at.outputs[i], problem_.views.outputs[i]);
      ATTACCA_TRY_VOID(driver.call(driver.memset_d8, reinterpret_cast<gpu::DevicePointer>(reduced),
                                   uint8_t{0}, sizeof(float), stream));
    }
    return {};
  }

 private:
  std::shared_ptr<Toolbox> toolbox_;
  problem::Problem problem_;
};

// A launch for each step along the outer batch axes.
class OuterLoop : public Runnable {
 public:
  OuterLoop(const problem::Problem& problem, std::unique_ptr<Runnable> inner)
      : axes_(problem.outer), inner_(std::move(inner)), moved_(no_addresses(problem.views)) {
    for (problem::OuterAxis& axis : axes_) {
      for_each(
          [](int64_t& stride, const problem::View& view) { stride *= ir::size_of(view.dtype); },
          axis.strides, problem.views);
      steps_ *= axis.extent;
    }
  }

  size_t workspace_bytes() const override { return inner_->workspace_bytes(); }

  Status launch(const Addresses& at, void* workspace, gpu::StreamHandle stream) const override {
    const auto lease = moved_.take([&] { return at; });
    Addresses& moved = *lease;
    for (int64_t step = 0; step < steps_; ++step) {
      moved = at;
      int64_t rest = step;
      for (size_t axis = axes_.size(); axis-- > 0;) {
        const int64_t index = rest % axes_[axis].extent;
        rest /= axes_[axis].extent;
        for_each(
            [index](void*& address, int64_t stride) {
              if (address != nullptr) address = static_cast<char*>(address) + index * stride;
            },
            moved, axes_[axis].strides);
      }
      ATTACCA_TRY_VOID(inner_->launch(moved, workspace, stream));
    }
    return {};
  }

 private:
  std::vector<problem::OuterAxis> axes_;  // strides in bytes
  int64_t steps_ = 1;
  std::unique_ptr<Runnable> inner_;
  mutable Reused<Addresses> moved_;
};

Result<std::unique_ptr<Runnable>> prepare_user_kernel(const std::shared_ptr<Toolbox>& toolbox,
                                                      const problem::Problem& problem,
                                                      const Candidate& candidate) {
  if (candidate.kind == CandidateKind::Fused) return make_fused_user_kernel(toolbox, problem);
  ATTACCA_TRY(auto tail, prepare(toolbox, tail_of(problem), {}));
  return make_unfused_user_kernel(toolbox, problem, std::move(tail));
}

}  // namespace

Result<std::unique_ptr<Runnable>> prepare(const std::shared_ptr<Toolbox>& toolbox,
                                          const problem::Problem& problem,
                                          const Candidate& candidate) {
  if (problem.empty()) return std::make_unique<Nothing>(toolbox, problem);
  if (problem.kernel) return prepare_user_kernel(toolbox, problem, candidate);
  if (gathers_before(problem, candidate, toolbox->catalog())) {
    ATTACCA_TRY(auto product, prepare(toolbox, with_gathered_rows(problem), candidate));
    return gather_before(toolbox, problem, std::move(product));
  }
  if (widens_before(problem, candidate, toolbox->catalog())) {
    ATTACCA_TRY(auto product, prepare(toolbox, with_widened_weights(problem), candidate));
    return widen_before(toolbox, problem, std::move(product));
  }
  if (numbers_before(problem, candidate)) {
    const problem::Problem numbered = with_numbered_groups(problem);
    ATTACCA_TRY(auto product, prepare(toolbox, numbered, candidate));
    return number_before(toolbox, problem, numbered, std::move(product));
  }
  problem::Problem step = problem;
  step.outer.clear();
  std::unique_ptr<Runnable> runnable;
  if (step.products.empty()) {
    ATTACCA_TRY(runnable, make_pointwise(toolbox, step));
  } else if (candidate.kind == CandidateKind::Fused) {
    ATTACCA_TRY(runnable, make_fused(toolbox, step, candidate));
  } else {
    ATTACCA_TRY(runnable, make_unfused(toolbox, step, candidate));
  }
  if (problem.outer.empty()) return runnable;
  return std::make_unique<OuterLoop>(problem, std::move(runnable));
}

}  // namespace attacca::launch
