#include "launch/unfused.hpp"

#include <algorithm>
#include <optional>

#include "fmt/format.h"

#include "launch/arguments.hpp"
#include "launch/fused.hpp"
#include "launch/grouped.hpp"
#include "launch/helpers/plain_product.hpp"
#include "launch/operand_source.hpp"
#include "launch/vendor_epilogue.hpp"
#include "support/reused.hpp"

namespace attacca::launch {
namespace {

using epilogue::Role;
using ir::DType;

// How many of the library's proposals for a product are timed, for each limit of workspace. 32 MiB
// is its recommendation for Hopper. With 1 MiB, PyTorch's choice, it splits K in another way:
// 64 x 3584 x 18944 takes 38 us instead of 41.
constexpr WorkspaceLimit kVendorWorkspace[] = {{size_t{32} << 20, 8}, {size_t{1} << 20, 4}};

}  // namespace

std::vector<std::pair<DType, DType>> multiplied_as(
    const problem::ProductOperands<problem::View>& views, DType stored) {
  std::vector<std::pair<DType, DType>> ways;
  const DType a = views.a.dtype, b = problem::is_widened(views) ? a : views.b.dtype;
  if (vendor_multiplies(a, b, stored)) ways.emplace_back(a, b);
  if (views.scales) {
    ways.emplace_back(DType::F32, DType::F32);
    return ways;
  }
  for (const DType candidate : {DType::BF16, DType::F16, DType::F32}) {
    const auto holds = [&](DType dtype) {
      return dtype == candidate || ir::is_fp8(dtype) ||
             (candidate == DType::F32 && ir::is_float(dtype) && dtype != DType::F64);
    };
    if (candidate != a && holds(a) && holds(b) && vendor_multiplies(candidate, candidate, stored)) {
      ways.emplace_back(candidate, candidate);
      break;
    }
  }
  return ways;
}

namespace {

struct Step {
  // `scales` is set if the library multiplies by them.
  problem::ProductOperands<Source> sources;
  std::optional<VendorGemm> gemm;
  int algorithm = 0;
  std::optional<PlainProduct> plain;        // if the vendor refuses
  std::shared_ptr<const Runnable> grouped;  // None of the three: K is 0, the result 0
  std::shared_ptr<Reused<Addresses>> grouped_addresses;
  problem::View result;
  size_t result_at = 0, result_bytes = 0;
  size_t scratch_at = 0;
};

class Unfused : public Runnable {
 public:
  static Result<std::unique_ptr<Unfused>> make(const std::shared_ptr<Toolbox>& toolbox,
                                               const problem::Problem& problem,
                                               const Candidate& candidate) {
    ATTACCA_TRY(auto made, make_products(toolbox, problem, candidate));
    if (!made->bare_) {
      ATTACCA_TRY(made->tail_, make_pointwise(toolbox, made->tail_problem()));
    }
    return made;
  }

  // A path without the tail's kernel: it must not be launched.
  static Result<std::unique_ptr<Unfused>> make_products(const std::shared_ptr<Toolbox>& toolbox,
                                                        const problem::Problem& problem,
                                                        const Candidate& candidate) {
    std::vector<VendorEpilogue> ways = vendor_epilogues(problem);
    const auto way = static_cast<size_t>(candidate.absorbed);
    if (way >= ways.size())
      return fail(fmt::format("the vendor library absorbs no such part of this epilogue"),
                  to_string(candidate), "leave out absorbed=, or tune again");
    std::unique_ptr<Unfused> made(new Unfused(toolbox, problem, std::move(ways[way])));
    Arena arena;
    made->bare_ = is_bare_product(problem, made->vendor_);
    for (size_t i = 0; i < problem.products.size(); ++i) {
      ATTACCA_TRY(Step step, made->make_step(i, candidate.algorithm, arena));
      made->steps_.push_back(std::move(step));
    }
    if (candidate.algorithm > 0 && candidate.algorithm >= made->algorithms())
      return fail(fmt::format("cuBLASLt proposes {} algorithms here", made->algorithms()),
                  to_string(candidate), "leave out algorithm=, or tune again");
    made->workspace_bytes_ = arena.size();
    return made;
  }

  size_t workspace_bytes() const override { return workspace_bytes_; }
  int algorithms() const {
    int most = 1;
    for (const Step& step : steps_)
      if (step.gemm) most = std::max(most, step.gemm->algorithms());
    return most;
  }

  // Null: the library does not compute the first product.
  const VendorGemm* first_gemm() const { return steps_[0].gemm ? &*steps_[0].gemm : nullptr; }

  Status launch(const Addresses& at, void* workspace, gpu::StreamHandle stream) const override {
    auto* scratch = static_cast<char*>(workspace);
    for (size_t i = 0; i < steps_.size(); ++i) ATTACCA_TRY_VOID(multiply(i, at, scratch, stream));
    if (bare_) return {};
    const auto tail = tail_addresses_.take([this] { return no_tail_addresses(); });
    set_tail_addresses(at, scratch, *tail);
    return tail_->launch(*tail, nullptr, stream);
  }

 private:
  Unfused(std::shared_ptr<Toolbox> toolbox, const problem::Problem& problem, VendorEpilogue vendor)
      : toolbox_(std::move(toolbox)),
        problem_(problem),
        vendor_(std::move(vendor)),
        tail_addresses_(no_tail_addresses()) {}

  Result<Step> make_step(size_t index, int algorithm, Arena& arena) const {
    const problem::Problem& problem = problem_;
    const problem::Product& product = problem.products[index];
    const auto& views = problem.views.products[index];
    const DType stored = stored_dtype(problem, vendor_, index);
    Step step;
    step.result =
        bare_ ? problem.views.outputs[0]
              : problem::View{
                    .dtype = stored, .row_stride = (product.n + 7) / 8 * 8, .column_stride = 1};
    if (!bare_) {
      step.result.batch_stride = problem.m * step.result.row_stride;
      step.result_bytes =
          static_cast<size_t>(problem.batch * step.result.batch_stride * ir::size_of(stored));
      step.result_at = arena.take(step.result_bytes);
    }
    step.result.offset = 0;
    if (product.k == 0) return step;
    if (product.groups) {
      ATTACCA_TRY(step.grouped, make_grouped(toolbox_, problem, index, step.result));
      step.grouped_addresses = std::make_shared<Reused<Addresses>>(no_grouped_addresses());
      return step;
    }
    auto vendor_step = use_vendor(index, algorithm, arena, step);
    if (vendor_step) return step;
    if (vendor_.tail != VendorTail::None) return tl::make_unexpected(vendor_step.error());
    step.gemm.reset();
    step.sources = {as_it_lies(views.a), as_it_lies(views.b)};
    if (product.packed) {
      ATTACCA_TRY(step.sources.b,
                  unpacked_source(toolbox_, views.b, *product.packed, views.b.dtype, arena));
    }
    if (views.scales) ATTACCA_TRY_VOID(scale_factors(index, arena, step));
    ATTACCA_TRY(step.plain, PlainProduct::make(
                                toolbox_, {problem.m, product.n, product.k, problem.batch,
                                           step.sources.a.view, step.sources.b.view, step.result}));
    return step;
  }

  // The scales of A's and B's blocks in the library's order. Errors: the library does not support
  // them.
  Status use_scales(size_t index, Arena& arena, Step& step) const {
    const problem::Product& product = problem_.products[index];
    const auto& scales = *problem_.views.products[index].scales;
    const auto extents = *problem::extents(problem_).products[index].scales;
    if (problem_.batch != 1) return fail("scales of batches", "cuBLASLt");
    const auto source = [&](const problem::View& view, const problem::Extents& extent) {
      return make_source(toolbox_, view, DType::F32, extent.rows, extent.columns, 1,
                         Contiguous::Rows, arena);
    };
    ATTACCA_TRY(Source a, source(scales.a, extents.a));
    ATTACCA_TRY(Source b, source(scales.b, extents.b));
    if (!vendor_takes_scales({a.view, b.view}, problem_.m, product.k))
      return fail("scales of blocks that lie otherwise", "cuBLASLt");
    step.sources.scales = {std::move(a), std::move(b)};
    return {};
  }

  // A and B times their scales.
  Status scale_factors(size_t index, Arena& arena, Step& step) const {
    const problem::Product& product = problem_.products[index];
    const problem::View &a = problem_.views.products[index].a,
                        &b = problem_.views.products[index].b;
    const auto& scales = *problem_.views.products[index].scales;
    const auto batch = [&](const problem::View& view, const problem::View& of_blocks) {
      const bool one = view.batch_stride == 0 && of_blocks.batch_stride == 0;
      return BlockAxis{one ? 1 : problem_.batch, view.batch_stride, of_blocks.batch_stride, 1};
    };
    ATTACCA_TRY(step.sources.a, scaled_source(toolbox_, a, scales.a, batch(a, scales.a),
                                              {problem_.m, a.row_stride, scales.a.row_stride, 1},
                                              {product.k, a.column_stride, scales.a.column_stride,
                                               problem::kScaleBlock},
                                              arena));
    ATTACCA_TRY(
        step.sources.b,
        scaled_source(toolbox_, b, scales.b, batch(b, scales.b),
                      {product.n, b.column_stride, scales.b.column_stride, problem::kScaleBlock},
                      {product.k, b.row_stride, scales.b.row_stride, problem::kScaleBlock}, arena));
    std::swap(step.sources.b.view.row_stride, step.sources.b.view.column_stride);
    return {};
  }

  // An error where there is no vendor library or it does not take the product.
  Status use_vendor(size_t index, int algorithm, Arena& arena, Step& step) const {
    if (problem_.batch_invariant) return fail(std::string(kVariantVendor));
    ATTACCA_TRY(const auto vendor, toolbox_->vendor());
    Status refused = fail("the vendor library does not multiply these dtypes");
    for (const auto& [a, b] :
         multiplied_as(problem_.views.products[index], stored_dtype(problem_, vendor_, index))) {
      refused = use_vendor(vendor, index, {a, b}, algorithm, arena, step);
      if (refused) return {};
    }
    return refused;
  }

  Status use_vendor(const std::shared_ptr<const CublasLt>& vendor, size_t index,
                    std::pair<DType, DType> dtypes, int algorithm, Arena& arena, Step& step) const {
    const problem::Problem& problem = problem_;
    const problem::Product& product = problem.products[index];
    const auto& views = problem.views.products[index];
    const bool bytes = ir::size_of(dtypes.first) == 1;
    Arena mine = arena;
    step.sources = {};
    const bool scaled = views.scales && bytes;
    if (scaled) ATTACCA_TRY_VOID(use_scales(index, mine, step));
    if (views.scales && !scaled) {
      ATTACCA_TRY_VOID(scale_factors(index, mine, step));
    } else {
      ATTACCA_TRY(step.sources.a,
                  make_source(toolbox_, views.a, dtypes.first, problem.m, product.k, problem.batch,
                              bytes ? Contiguous::Columns : Contiguous::Either, mine));
    }
    if (views.scales && !scaled) {
      // Both can be read in place.
    } else if (product.packed) {
      ATTACCA_TRY(step.sources.b,
                  unpacked_source(toolbox_, views.b, *product.packed, dtypes.second, mine));
    } else {
      ATTACCA_TRY(step.sources.b,
                  make_source(toolbox_, views.b, dtypes.second, product.k, product.n, problem.batch,
                              bytes ? Contiguous::Rows : Contiguous::Either, mine));
    }
    ATTACCA_TRY(step.gemm,
                VendorGemm::make(vendor,
                                 {problem.m, product.n, product.k, problem.batch,
                                  step.sources.a.view, step.sources.b.view, step.result,
                                  vendor_.tail, bias_view().alignment, product.fast, scaled},
                                 kVendorWorkspace));
    // One of several products may have fewer algorithms.
    step.algorithm = std::min(algorithm, step.gemm->algorithms() - 1);
    step.scratch_at = mine.take(step.gemm->workspace_bytes(step.algorithm));
    arena = mine;
    return {};
  }

  const problem::View& bias_view() const {
    static constexpr problem::View kNone;
    return vendor_.bias_input ? problem_.views.inputs[*vendor_.bias_input] : kNone;
  }

  const void* bias(const Addresses& at) const {
    if (!vendor_.bias_input) return nullptr;
    return first_element(at.inputs[*vendor_.bias_input], bias_view());
  }

  void* result_of(const Step& step, const Addresses& at, char* workspace) const {
    if (!bare_) return workspace + step.result_at;
    return first_element(at.outputs[0], problem_.views.outputs[0]);
  }

  Status multiply(size_t index, const Addresses& at, char* workspace,
                  gpu::StreamHandle stream) const {
    const Step& step = steps_[index];
    void* result = result_of(step, at, workspace);
    const auto& memory = at.products[index];
    if (step.grouped) {
      const auto alone = step.grouped_addresses->take(no_grouped_addresses);
      alone->products[0] = memory;
      alone->outputs[0] = result;
      return step.grouped->launch(*alone, nullptr, stream);
    }
    if (!step.gemm && !step.plain) return clear(step, result, stream);
    const auto scales = memory.scales.value_or(problem::ScaleOperands<void*>{});
    const auto& sources = step.sources;
    ATTACCA_TRY(void* const a, sources.a.ready({memory.a, scales.a}, workspace, stream));
    ATTACCA_TRY(void* const b, sources.b.ready({memory.b, scales.b}, workspace, stream));
    if (step.plain) return step.plain->launch(a, b, result, stream);
    VendorGemm::Extras extras{.bias = bias(at)};
    if (sources.scales) {
      ATTACCA_TRY(extras.scales_a, sources.scales->a.ready({scales.a}, workspace, stream));
      ATTACCA_TRY(extras.scales_b, sources.scales->b.ready({scales.b}, workspace, stream));
    }
    return step.gemm->launch(step.algorithm, a, b, extras, result, workspace + step.scratch_at,
                             stream);
  }

  Status clear(const Step& step, void* result, gpu::StreamHandle stream) const {
    const gpu::Driver& driver = toolbox_->device().driver();
    const auto at = reinterpret_cast<gpu::DevicePointer>(result);
    if (!bare_) return driver.call(driver.memset_d8, at, uint8_t{0}, step.result_bytes, stream);
    // There may be other data between the rows of the caller's tensor.
    const problem::View& out = problem_.views.outputs[0];
    const auto width = static_cast<size_t>(ir::size_of(out.dtype));
    for (int64_t batch = 0; batch < problem_.batch; ++batch)
      for (int64_t row = 0; row < problem_.m; ++row)
        ATTACCA_TRY_VOID(driver.call(
            driver.memset_d8,
            at + static_cast<size_t>(batch * out.batch_stride + row * out.row_stride) * width,
            uint8_t{0}, static_cast<size_t>(problem_.n) * width, stream));
    return {};
  }

  // Prepares the epilogue, which reads the accumulators from the workspace.
  problem::Problem tail_problem() const {
    std::vector<ir::Dim> columns;
    std::vector<ir::Value> nodes;
    for (const problem::Product& product : problem_.products) {
      columns.emplace_back(product.n);
      nodes.push_back(product.node);
    }
    problem::Problem tail =
        problem::tail_problem(problem_, epilogue::unfuse(vendor_.rest, columns, nodes));
    for (size_t i = 0; i < tail.views.inputs.size(); ++i) {
      const epilogue::Input& input = problem_.epilogue.inputs[i];
      if (input.role != Role::Accumulator) continue;
      problem::View& view = tail.views.inputs[i] = steps_[static_cast<size_t>(input.gemm)].result;
      view.offset = input.column_offset.maybe_value().value_or(0);
      view.column_stride = input.column_step;
      while (view.alignment > 1 && view.offset * ir::size_of(view.dtype) % view.alignment != 0)
        view.alignment /= 2;
    }
    return tail;
  }

  // Addresses of a product alone.
  static Addresses no_grouped_addresses() {
    return {.products = {{}}, .kernel = {}, .inputs = {nullptr}, .outputs = {nullptr}};
  }

  Addresses no_tail_addresses() const { return no_addresses(problem_.views.of_epilogue()); }

  void set_tail_addresses(const Addresses& at, char* workspace, Addresses& tail) const {
    tail.outputs = at.outputs;
    tail.indices = at.indices;
    for (size_t i = 0; i < problem_.epilogue.inputs.size(); ++i) {
      const epilogue::Input& input = problem_.epilogue.inputs[i];
      tail.inputs[i] = input.role == Role::Accumulator
                           ? workspace + steps_[static_cast<size_t>(input.gemm)].result_at
                           : at.inputs[i];
    }
  }

  std::shared_ptr<Toolbox> toolbox_;
  const problem::Problem problem_;
  const VendorEpilogue vendor_;
  std::vector<Step> steps_;
  std::unique_ptr<Runnable> tail_;
  mutable Reused<Addresses> tail_addresses_;
  bool bare_ = false;
  size_t workspace_bytes_ = 0;
};

}  // namespace

Result<std::unique_ptr<Runnable>> make_unfused(const std::shared_ptr<Toolbox>& toolbox,
                                               const problem::Problem& problem,
                                               const Candidate& candidate) {
  return Unfused::make(toolbox, problem, candidate);
}

Result<std::vector<Proposal>> unfused_proposals(const std::shared_ptr<Toolbox>& toolbox,
                                                const problem::Problem& problem) {
  if (problem.kernel) return std::vector<Proposal>(1);  // the library computes nothing of it
  problem::Problem step = with_widened_weights(with_gathered_rows(problem));
  step.outer.clear();
  std::vector<Proposal> all;
  const auto ways = static_cast<int>(vendor_epilogues(step).size());
  for (Candidate candidate; candidate.absorbed < ways; ++candidate.absorbed) {
    const auto made = Unfused::make_products(toolbox, step, candidate);
    // The library may refuse an epilogue, but not the bare product.
    if (!made && candidate.absorbed > 0) continue;
    if (!made) return tl::make_unexpected(made.error());
    for (candidate.algorithm = 0; candidate.algorithm < (*made)->algorithms();
         ++candidate.algorithm) {
      all.push_back({candidate, std::nullopt});
      const VendorGemm* gemm = (*made)->first_gemm();
      if (gemm == nullptr || candidate.algorithm >= gemm->algorithms()) continue;
      all.back().algorithm = gemm->describe(candidate.algorithm);
    }
    candidate.algorithm = 0;
  }
  return all;
}

Result<std::vector<Candidate>> unfused_candidates(const std::shared_ptr<Toolbox>& toolbox,
                                                  const problem::Problem& problem) {
  ATTACCA_TRY(const std::vector<Proposal> proposals, unfused_proposals(toolbox, problem));
  std::vector<Candidate> candidates;
  for (const Proposal& each : proposals) candidates.push_back(each.candidate);
  return candidates;
}

}  // namespace attacca::launch
