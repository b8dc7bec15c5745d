#include "launch/before.hpp"

#include "launch/arguments.hpp"
#include "launch/helpers/gather_rows.hpp"
#include "launch/helpers/group_ids.hpp"
#include "launch/helpers/widen_codes.hpp"
#include "launch/operand_source.hpp"
#include "support/reused.hpp"

namespace attacca::launch {
namespace {

// Kernels write arrays into the workspace, then `product` reads these instead of operands.
class Before : public Runnable {
 public:
  size_t workspace_bytes() const override { return arena_.size(); }

  Status launch(const Addresses& at, void* workspace, gpu::StreamHandle stream) const override {
    const auto lease = moved_.take([&] { return no_addresses_; });
    ATTACCA_TRY_VOID(write(at, static_cast<char*>(workspace), *lease, stream));
    return product_->launch(*lease, workspace, stream);
  }

 protected:
  // `views`: as many as write() sets addresses.
  Before(std::unique_ptr<Runnable> product, const problem::Operands<problem::View>& views)
      : product_(std::move(product)), no_addresses_(no_addresses(views)), moved_(no_addresses_) {
    arena_.take(product_->workspace_bytes());
  }

  // Room in the workspace, apart from the product's: where it begins.
  size_t take(int64_t bytes) { return arena_.take(static_cast<size_t>(bytes)); }

  // Launches the kernels, and sets all addresses for the product. `moved` may hold those of another
  // launch.
  virtual Status write(const Addresses& at, char* workspace, Addresses& moved,
                       gpu::StreamHandle stream) const = 0;

 private:
  std::unique_ptr<Runnable> product_;
  Arena arena_;
  const Addresses no_addresses_;
  mutable Reused<Addresses> moved_;
};

class Gathered : public Before {
 public:
  Gathered(const problem::Problem& problem, std::unique_ptr<Runnable> product)
      : Before(std::move(product), problem.views), problem_(problem) {}

  Status load(const std::shared_ptr<Toolbox>& toolbox) {
    const problem::Problem dense = with_gathered_rows(problem_);
    for (size_t i = 0; i < problem_.products.size(); ++i) {
      Copy& copy = copies_.emplace_back();
      copy.repeats_first = problem_.repeats_first_a(i);
      const auto& views = problem_.views.products[i];
      if (!views.rows || copy.repeats_first) continue;
      const problem::View& to = dense.views.products[i].a;
      copy.at = take(problem_.m * to.row_stride * ir::size_of(to.dtype));
      ATTACCA_TRY(copy.kernel, GatherRows::make(toolbox, {problem_.m, problem_.products[i].k,
                                                          *problem_.products[i].rows, views.a,
                                                          *views.rows, to}));
    }
    return {};
  }

 private:
  struct Copy {
    std::optional<GatherRows> kernel;  // none: A lies where the graph has it
    bool repeats_first = false;
    size_t at = 0;
  };

  Status write(const Addresses& at, char* workspace, Addresses& moved,
               gpu::StreamHandle stream) const override {
    moved = at;
    for (size_t i = 0; i < copies_.size(); ++i) {
      const auto& from = at.products[i];
      auto& to = moved.products[i];
      to.rows.reset();
      if (copies_[i].repeats_first) to.a = moved.products[0].a;
      if (!copies_[i].kernel) continue;
      const auto& views = problem_.views.products[i];
      to.a = workspace + copies_[i].at;
      ATTACCA_TRY_VOID(copies_[i].kernel->launch(
          first_element(from.a, views.a), first_element(*from.rows, *views.rows), to.a, stream));
    }
    return {};
  }

  const problem::Problem problem_;
  std::vector<Copy> copies_;  // one for each product
};

class Widened : public Before {
 public:
  Widened(const problem::Problem& problem, std::unique_ptr<Runnable> product)
      : Before(std::move(product), problem.views) {}

  Status load(const std::shared_ptr<Toolbox>& toolbox, const problem::Problem& problem) {
    for (size_t i = 0; i < problem.products.size(); ++i) {
      Copy& copy = copies_.emplace_back();
      const auto& codes = problem.products[i].codes;
      if (!codes) continue;
      copy.count = coded_weights(problem, i);
      copy.at = take(copy.count * ir::size_of(codes->dtype));
      ATTACCA_TRY(copy.kernel, WidenCodes::make(toolbox, *codes));
    }
    return {};
  }

 private:
  struct Copy {
    std::optional<WidenCodes> kernel;  // none: B is no codes
    int64_t count = 0;                 // weights
    size_t at = 0;
  };

  Status write(const Addresses& at, char* workspace, Addresses& moved,
               gpu::StreamHandle stream) const override {
    moved = at;
    for (size_t i = 0; i < copies_.size(); ++i) {
      const auto& from = at.products[i];
      const Copy& copy = copies_[i];
      if (!copy.kernel) continue;
      auto& to = moved.products[i];
      to.code_scales.reset();
      to.code_zeros.reset();
      to.b = workspace + copy.at;
      ATTACCA_TRY_VOID(copy.kernel->launch(
          from.b, *from.code_scales, from.code_zeros.value_or(nullptr), to.b, copy.count, stream));
    }
    return {};
  }

  std::vector<Copy> copies_;  // one for each product
};

class Numbered : public Before {
 public:
  Numbered(const problem::Problem& problem, const problem::Problem& numbered, GroupIds kernel,
           std::unique_ptr<Runnable> product)
      : Before(std::move(product), numbered.views),
        problem_(problem),
        kernel_(std::move(kernel)),
        numbers_at_(take(problem.m * int64_t{sizeof(int32_t)})) {
    size_t own = 0;
    for (const epilogue::Input& input : problem.epilogue.inputs) {
      if (input.rows) given_.emplace_back(own++);
      if (input.group_stride) given_.emplace_back();
    }
  }

 private:
  Status write(const Addresses& at, char* workspace, Addresses& moved,
               gpu::StreamHandle stream) const override {
    moved.products = at.products;
    moved.kernel = at.kernel;
    moved.inputs = at.inputs;
    moved.outputs = at.outputs;
    void* const numbers = workspace + numbers_at_;
    for (size_t i = 0; i < moved.indices.size(); ++i)
      moved.indices[i] = given_[i] ? at.indices[*given_[i]] : numbers;
    const problem::View& ends = *problem_.views.products[0].offsets;
    return kernel_.launch(first_element(*at.products[0].offsets, ends),
                          *problem_.products[0].groups, ends.column_stride, numbers, problem_.m,
                          stream);
  }

  const problem::Problem problem_;
  GroupIds kernel_;
  const size_t numbers_at_;
  std::vector<std::optional<size_t>> given_;  // by index: the problem's own one
};

}  // namespace

Result<std::unique_ptr<Runnable>> gather_before(const std::shared_ptr<Toolbox>& toolbox,
                                                const problem::Problem& problem,
                                                std::unique_ptr<Runnable> product) {
  auto made = std::make_unique<Gathered>(problem, std::move(product));
  ATTACCA_TRY_VOID(made->load(toolbox));
  return made;
}

Result<std::unique_ptr<Runnable>> widen_before(const std::shared_ptr<Toolbox>& toolbox,
                                               const problem::Problem& problem,
                                               std::unique_ptr<Runnable> product) {
  auto made = std::make_unique<Widened>(problem, std::move(product));
  ATTACCA_TRY_VOID(made->load(toolbox, problem));
  return made;
}

Result<std::unique_ptr<Runnable>> number_before(const std::shared_ptr<Toolbox>& toolbox,
                                                const problem::Problem& problem,
                                                const problem::Problem& numbered,
                                                std::unique_ptr<Runnable> product) {
  ATTACCA_TRY(GroupIds kernel, GroupIds::make(toolbox));
  return std::make_unique<Numbered>(problem, numbered, std::move(kernel), std::move(product));
}

}  // namespace attacca::launch
