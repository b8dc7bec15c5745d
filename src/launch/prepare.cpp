#include "launch/prepare.hpp"

#include "launch/arguments.hpp"
#include "launch/fused.hpp"
#include "launch/helpers/gather_rows.hpp"
#include "launch/helpers/group_ids.hpp"
#include "launch/helpers/widen_codes.hpp"
#include "launch/legality.hpp"
#include "launch/operand_source.hpp"
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

// A kernel gathers the rows of A into the workspace, then `product` computes the problem
// with_gathered_rows().
class Gathered : public Runnable {
 public:
  static Result<std::unique_ptr<Gathered>> make(const std::shared_ptr<Toolbox>& toolbox,
                                                const problem::Problem& problem,
                                                std::unique_ptr<Runnable> product) {
    std::unique_ptr<Gathered> made(new Gathered(problem, std::move(product)));
    const problem::Problem dense = with_gathered_rows(problem);
    Arena arena;
    arena.take(made->product_->workspace_bytes());
    for (size_t i = 0; i < problem.products.size(); ++i) {
      Copy copy;
      copy.repeats_first = problem.repeats_first_a(i);
      const auto& views = problem.views.products[i];
      if (views.rows && !copy.repeats_first) {
        const problem::View& to = dense.views.products[i].a;
        copy.at =
            arena.take(static_cast<size_t>(problem.m * to.row_stride * ir::size_of(to.dtype)));
        ATTACCA_TRY(copy.kernel, GatherRows::make(toolbox, {problem.m, problem.products[i].k,
                                                            *problem.products[i].rows, views.a,
                                                            *views.rows, to}));
      }
      made->copies_.push_back(std::move(copy));
    }
    made->workspace_bytes_ = arena.size();
    return made;
  }

  size_t workspace_bytes() const override { return workspace_bytes_; }

  Status launch(const Addresses& at, void* workspace, gpu::StreamHandle stream) const override {
    const auto lease = moved_.take([&] { return at; });
    Addresses& moved = *lease;
    moved = at;
    for (size_t i = 0; i < copies_.size(); ++i) {
      const auto& from = at.products[i];
      auto& to = moved.products[i];
      to.rows.reset();
      if (copies_[i].repeats_first) to.a = moved.products[0].a;
      if (!copies_[i].kernel) continue;
      const auto& views = problem_.views.products[i];
      to.a = static_cast<char*>(workspace) + copies_[i].at;
      ATTACCA_TRY_VOID(copies_[i].kernel->launch(
          first_element(from.a, views.a), first_element(*from.rows, *views.rows), to.a, stream));
    }
    return product_->launch(moved, workspace, stream);
  }

 private:
  struct Copy {
    std::optional<GatherRows> kernel;  // none: A lies where the graph has it
    bool repeats_first = false;
    size_t at = 0;
  };

  Gathered(const problem::Problem& problem, std::unique_ptr<Runnable> product)
      : problem_(problem), product_(std::move(product)), moved_(no_addresses(problem.views)) {}

  const problem::Problem problem_;
  std::unique_ptr<Runnable> product_;
  std::vector<Copy> copies_;  // one for each product
  mutable Reused<Addresses> moved_;
  size_t workspace_bytes_ = 0;
};

// Kernels widen weights in codes into the workspace, then `product` computes the problem
// with_widened_weights().
class Widened : public Runnable {
 public:
  static Result<std::unique_ptr<Widened>> make(const std::shared_ptr<Toolbox>& toolbox,
                                               const problem::Problem& problem,
                                               std::unique_ptr<Runnable> product) {
    std::unique_ptr<Widened> made(new Widened(problem, std::move(product)));
    Arena arena;
    arena.take(made->product_->workspace_bytes());
    for (size_t i = 0; i < problem.products.size(); ++i) {
      Copy copy;
      if (const auto& codes = problem.products[i].codes) {
        copy.count = coded_weights(problem, i);
        copy.at = arena.take(static_cast<size_t>(copy.count * ir::size_of(codes->dtype)));
        ATTACCA_TRY(copy.kernel, WidenCodes::make(toolbox, *codes));
      }
      made->copies_.push_back(std::move(copy));
    }
    made->workspace_bytes_ = arena.size();
    return made;
  }

  size_t workspace_bytes() const override { return workspace_bytes_; }

  Status launch(const Addresses& at, void* workspace, gpu::StreamHandle stream) const override {
    const auto lease = moved_.take([&] { return at; });
    Addresses& moved = *lease;
    moved = at;
    for (size_t i = 0; i < copies_.size(); ++i) {
      const auto& from = at.products[i];
      const Copy& copy = copies_[i];
      if (!copy.kernel) continue;
      auto& to = moved.products[i];
      to.code_scales.reset();
      to.code_zeros.reset();
      to.b = static_cast<char*>(workspace) + copy.at;
      ATTACCA_TRY_VOID(copy.kernel->launch(
          from.b, *from.code_scales, from.code_zeros.value_or(nullptr), to.b, copy.count, stream));
    }
    return product_->launch(moved, workspace, stream);
  }

 private:
  struct Copy {
    std::optional<WidenCodes> kernel;  // none: B is no codes
    int64_t count = 0;                 // weights
    size_t at = 0;
  };

  Widened(const problem::Problem& problem, std::unique_ptr<Runnable> product)
      : product_(std::move(product)), moved_(no_addresses(problem.views)) {}

  std::unique_ptr<Runnable> product_;
  std::vector<Copy> copies_;  // one for each product
  mutable Reused<Addresses> moved_;
  size_t workspace_bytes_ = 0;
};

// A kernel writes the numbers of the rows' groups into the workspace, then `product` computes the
// problem with_numbered_groups().
class Numbered : public Runnable {
 public:
  static Result<std::unique_ptr<Numbered>> make(const std::shared_ptr<Toolbox>& toolbox,
                                                const problem::Problem& problem,
                                                const problem::Problem& numbered,
                                                std::unique_ptr<Runnable> product) {
    ATTACCA_TRY(GroupIds kernel, GroupIds::make(toolbox));
    return std::unique_ptr<Numbered>(
        new Numbered(problem, numbered, std::move(kernel), std::move(product)));
  }

  size_t workspace_bytes() const override { return workspace_bytes_; }

  Status launch(const Addresses& at, void* workspace, gpu::StreamHandle stream) const override {
    const auto lease = moved_.take([&] { return no_addresses(numbered_.views); });
    Addresses& moved = *lease;
    moved.products = at.products;
    moved.kernel = at.kernel;
    moved.inputs = at.inputs;
    moved.outputs = at.outputs;
    void* const numbers = static_cast<char*>(workspace) + numbers_at_;
    for (size_t i = 0; i < moved.indices.size(); ++i)
      moved.indices[i] = given_[i] ? at.indices[*given_[i]] : numbers;
    const problem::View& ends = *problem_.views.products[0].offsets;
    ATTACCA_TRY_VOID(kernel_.launch(first_element(*at.products[0].offsets, ends),
                                    *problem_.products[0].groups, ends.column_stride, numbers,
                                    problem_.m, stream));
    return product_->launch(moved, workspace, stream);
  }

 private:
  Numbered(const problem::Problem& problem, const problem::Problem& numbered, GroupIds kernel,
           std::unique_ptr<Runnable> product)
      : problem_(problem),
        numbered_(numbered),
        kernel_(std::move(kernel)),
        product_(std::move(product)),
        moved_(no_addresses(numbered.views)) {
    size_t own = 0;
    for (const epilogue::Input& input : problem.epilogue.inputs) {
      if (input.rows) given_.emplace_back(own++);
      if (input.group_stride) given_.emplace_back();
    }
    Arena arena;
    arena.take(product_->workspace_bytes());
    numbers_at_ = arena.take(static_cast<size_t>(problem.m) * sizeof(int32_t));
    workspace_bytes_ = arena.size();
  }

  const problem::Problem problem_, numbered_;
  GroupIds kernel_;
  std::unique_ptr<Runnable> product_;
  std::vector<std::optional<size_t>> given_;  // of each index: the problem's own one
  mutable Reused<Addresses> moved_;
  size_t numbers_at_ = 0, workspace_bytes_ = 0;
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
    return Gathered::make(toolbox, problem, std::move(product));
  }
  if (widens_before(problem, candidate, toolbox->catalog())) {
    ATTACCA_TRY(auto product, prepare(toolbox, with_widened_weights(problem), candidate));
    return Widened::make(toolbox, problem, std::move(product));
  }
  if (numbers_before(problem, candidate)) {
    const problem::Problem numbered = with_numbered_groups(problem);
    ATTACCA_TRY(auto product, prepare(toolbox, numbered, candidate));
    return Numbered::make(toolbox, problem, numbered, std::move(product));
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
