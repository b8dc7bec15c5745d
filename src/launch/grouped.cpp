#include "launch/grouped.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

#include "launch/arguments.hpp"
#include "launch/fused.hpp"
#include "launch/helpers/plain_grouped.hpp"
#include "launch/legality.hpp"

namespace attacca::launch {
namespace {

problem::Problem product_alone(const problem::Problem& problem, size_t index,
                               const problem::View& result) {
  const problem::Product& product = problem.products[index];
  problem::Problem alone;
  alone.m = problem.m;
  alone.n = product.n;
  alone.mode = problem.mode;
  alone.batch_invariant = problem.batch_invariant;
  alone.products = {product};
  alone.epilogue.domain = {problem.m, product.n};
  epilogue::Input accumulator;
  accumulator.role = epilogue::Role::Accumulator;
  accumulator.dtype = product.accumulator;
  accumulator.rounded = product.stored;
  accumulator.access.strides = {0, 0};
  alone.epilogue.inputs.push_back(accumulator);
  epilogue::Output output;
  output.dtype = result.dtype;
  output.access = {0, {result.row_stride, result.column_stride}};
  alone.epilogue.outputs.push_back(output);
  alone.views.products = {problem.views.products[index]};
  alone.views.inputs = {problem::View{.dtype = product.accumulator}};
  alone.views.outputs = {result};
  alone.views.outputs[0].batch_stride = 0;
  alone.sources = map([](const problem::View&) { return ir::Value{}; }, alone.views);
  return alone;
}

// The legal template whose tile holds the rows that random routing gives nearly every group, or
// else most of them, with the fewest others. (256 groups of 16 rows each, by tiles of 16, take 1.3
// times the time that memory allows, because half of the groups have two tiles.)
std::optional<Candidate> least_padded(const Toolbox& toolbox, const problem::Problem& alone) {
  const int64_t groups = std::max<int64_t>(*alone.products[0].groups, 1);
  constexpr double kInvariantMean = 64;  // as good as any other
  const double mean =
      alone.batch_invariant ? kInvariantMean : double(alone.m) / double(std::min(groups, alone.m));
  const auto rows = static_cast<int64_t>(std::ceil(mean + 3 * std::sqrt(mean - 1)));
  std::optional<Candidate> best;
  int64_t best_tile = 0;
  for (const templates::Template& kernel : toolbox.catalog().templates()) {
    if (!kernel.grouped || kernel.only_named_on == toolbox.device().info().capability()) continue;
    const int64_t tile = kernel.tile.m;
    const bool better = best_tile < rows ? tile > best_tile : tile >= rows && tile < best_tile;
    if (!better) continue;
    Legality legal = legality(alone, kernel, toolbox.device().info());
    if (!std::holds_alternative<std::shared_ptr<const epilogue::Binding>>(legal)) continue;
    best = {.kind = CandidateKind::Fused,
            .kernel = kernel.name,
            .binding = std::get<0>(std::move(legal))};
    best_tile = tile;
  }
  return best;
}

class PlainGroupedLaunch : public Runnable {
 public:
  PlainGroupedLaunch(PlainGrouped kernel, problem::ProductOperands<problem::View> views,
                     const problem::View& result)
      : kernel_(std::move(kernel)), views_(std::move(views)), result_(result) {}
  size_t workspace_bytes() const override { return 0; }
  Status launch(const Addresses& at, void*, gpu::StreamHandle stream) const override {
    const auto& product = at.products[0];
    problem::ScaleOperands<const void*> scales;
    if (views_.scales)
      scales = {first_element(product.scales->a, views_.scales->a),
                first_element(product.scales->b, views_.scales->b)};
    return kernel_.launch(first_element(product.a, views_.a), first_element(product.b, views_.b),
                          first_element(*product.offsets, *views_.offsets),
                          first_element(at.outputs[0], result_), scales, stream);
  }

 private:
  PlainGrouped kernel_;
  problem::ProductOperands<problem::View> views_;
  problem::View result_;
};

}  // namespace

Result<std::unique_ptr<Runnable>> make_grouped(const std::shared_ptr<Toolbox>& toolbox,
                                               const problem::Problem& problem, size_t index,
                                               const problem::View& result) {
  const problem::Problem alone = product_alone(problem, index, result);
  if (const auto candidate = least_padded(*toolbox, alone))
    return make_fused(toolbox, alone, *candidate);
  const problem::Product& product = problem.products[index];
  const auto& views = problem.views.products[index];
  ATTACCA_TRY(
      PlainGrouped kernel,
      PlainGrouped::make(toolbox, {problem.m, product.n, product.k, *product.groups, views.a,
                                   views.b, result, *views.offsets, views.scales}));
  return std::make_unique<PlainGroupedLaunch>(std::move(kernel), views, result);
}

}  // namespace attacca::launch
