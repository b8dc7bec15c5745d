#include "run/cuda/problems.hpp"

#include "run/cuda/decide.hpp"

namespace attacca::run {
namespace {

int full_alignment(ir::Value) {
  return 16;
}

}  // namespace

Result<std::vector<ListedProblem>> list_problems(const Prepared& prepared,
                                                 const ir::SymbolValues& sizes) {
  std::vector<ListedProblem> problems;
  const ir::Graph& graph = prepared.graph();
  for (const fuse::Region& region : prepared.partition->regions) {
    if (region.kind == fuse::RegionKind::Single) continue;
    ATTACCA_TRY(problem::Problem problem,
                problem::concretize(region, graph, sizes, prepared.target.mode, full_alignment));
    if (prepared.target.batch_invariant) make_batch_invariant(problem);
    ListedProblem listed;
    listed.region = static_cast<size_t>(&region - prepared.partition->regions.data()) + 1;
    const bool is_pointwise = problem.products.empty() && !problem.kernel;
    if (!is_pointwise && !problem.empty()) {
      listed.problem = problem_class(problem);
      listed.shape = shape_bucket(problem);
      listed.operations = double(launches(problem)) * operations(problem);
      ATTACCA_TRY(listed.text, problem::write_problem(graph, region, sizes, prepared.target.mode,
                                                      full_alignment));
      listed.text.batch_invariant = prepared.target.batch_invariant;
    }
    problems.push_back(std::move(listed));
  }
  return problems;
}

Result<Decision> decide_problem(const std::shared_ptr<launch::Toolbox>& toolbox,
                                const problem::ProblemText& text, CudaOptions options) {
  ATTACCA_TRY(fuse::Partition cut, problem::cut_problem(text));
  Target target = Target::cuda(toolbox->device(), text.mode);
  target.batch_invariant = text.batch_invariant;
  Prepared prepared{std::move(target), {}, std::make_shared<const fuse::Partition>(std::move(cut))};
  ATTACCA_TRY(FixedPlaces places, FixedPlaces::make(toolbox->device(), prepared.graph()));
  const DeviceGraph shared{std::move(prepared), std::move(options), toolbox, std::move(places)};
  const StepContext context{shared, text.symbols, alignments_of(shared.graph(), text)};
  const fuse::Region& region = shared.prepared.partition->regions[0];
  ATTACCA_TRY(problem::Problem problem, problem::concretize(region, shared.graph(), text.symbols,
                                                            text.mode, context.alignment_of));
  if (text.batch_invariant) make_batch_invariant(problem);
  return decide(context, region, problem);
}

}  // namespace attacca::run
