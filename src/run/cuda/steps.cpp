#include "run/cuda/steps.hpp"

#include "fmt/format.h"

#include "launch/legality.hpp"
#include "launch/prepare.hpp"
#include "launch/unfused.hpp"
#include "launch/user_kernel.hpp"
#include "problem/region_graph.hpp"
#include "run/single_regions.hpp"
#include "support/warnings.hpp"

namespace attacca::run {
namespace {

using launch::Candidate;
using launch::CandidateKind;

// The values that a problem's operands are. An accumulator has no memory, unless it is what a
// user's kernel stores before its tail: the output's address stands for nothing there.
problem::Operands<ir::Value> values_of(const problem::Problem& problem,
                                       const Candidate& candidate) {
  problem::Operands<ir::Value> values = problem.sources;
  if (problem.kernel && candidate.kind == CandidateKind::Unfused) return values;
  for (size_t i = 0; i < values.inputs.size(); ++i)
    if (problem.epilogue.inputs[i].role == epilogue::Role::Accumulator)
      values.inputs[i] = values.outputs[0];
  return values;
}

CudaStep step_of(std::unique_ptr<launch::Runnable> runnable, problem::Operands<ir::Value> values) {
  CudaStep step;
  step.values = std::move(values);
  step.workspace_bytes = runnable->workspace_bytes();
  step.launch = [shared = std::shared_ptr<const launch::Runnable>(std::move(runnable))](
                    const problem::Addresses& at, void* workspace, gpu::StreamHandle stream) {
    return shared->launch(at, workspace, stream);
  };
  return step;
}

Result<CudaStep> make_step(const StepContext& context, const problem::Problem& problem,
                           const Candidate& candidate) {
  ATTACCA_TRY(auto runnable, launch::prepare(context.toolbox, problem, candidate));
  return step_of(std::move(runnable), values_of(problem, candidate));
}

// Whether a candidate that was read may be taken, which gives it its binding: the template is built
// and computes the problem, the filter leaves it; or the vendor library has the algorithm.
bool is_at_hand(const StepContext& context, const problem::Problem& problem, Candidate& candidate) {
  if (candidate.kind != CandidateKind::Fused)
    return candidate == Candidate{} || problem.kernel ||
           launch::prepare(context.toolbox, problem, candidate).has_value();
  launch::Candidates one{.ranked = {candidate}, .expected = {}, .excluded = {}};
  apply(context.options.tune_options.filter, one);
  if (one.ranked.empty()) return false;
  auto resolved = launch::resolve(candidate, problem, context.toolbox->catalog(),
                                  context.toolbox->device().info());
  if (resolved) candidate = *std::move(resolved);
  return resolved.has_value();
}

bool asks_what_is_known(Tuning tuning) {
  return tuning == Tuning::Known || tuning == Tuning::Measure;
}

bool measures(Tuning tuning) {
  return tuning == Tuning::Measure || tuning == Tuning::Always;
}

// A choice from the options, else from the database, written into the decision.
bool decide_by_known(const StepContext& context, const problem::Problem& problem,
                     Decision& decision) {
  const auto take = [&](const tune::Choice& choice, const char* source) {
    Candidate candidate = choice.candidate;
    if (!is_at_hand(context, problem, candidate)) return false;
    decision.candidate = std::move(candidate);
    decision.seconds = choice.seconds;
    decision.unfused_seconds = choice.unfused_seconds;
    decision.source = source;
    return true;
  };
  for (const KnownChoice& known : context.options.choices)
    if (known.key == decision.key && take(known.choice, "plan")) return true;
  auto database = tune::Database::open();
  const auto found =
      database
          ? database->find(decision.key)
          : Result<std::optional<tune::Choice>>(tl::make_unexpected(std::move(database).error()));
  if (!found) warn(found.error());
  return found && *found && take(**found, "database");
}

Status measure(const StepContext& context, const fuse::Region& region, Decision& decision) {
  ATTACCA_TRY(const problem::ProblemText text,
              problem::write_problem(context.graph, region, context.symbols, context.options.mode,
                                     context.alignment_of));
  ATTACCA_TRY(tune::Tuned tuned, tune::tune(context.toolbox, text, context.options.tune_options));
  decision.candidate = tuned.choice.candidate;
  decision.seconds = tuned.choice.seconds;
  decision.unfused_seconds = tuned.choice.unfused_seconds;
  decision.source = "measured";
  decision.trials = std::move(tuned.trials);
  decision.excluded = std::move(tuned.excluded);
  // A database that cannot be written costs the next process its own measurement, no more.
  auto database = tune::Database::open();
  const Status stored = database ? database->store(decision.key, tuned.choice)
                                 : Status(tl::make_unexpected(std::move(database).error()));
  if (!stored) {
    decision.not_stored = stored.error().what;
    warn(stored.error());
  }
  return {};
}

// The tail joins a user's kernel where it may, unless that was measured to be slower.
Status decide_kernel(const StepContext& context, const fuse::Region& region,
                     const problem::Problem& problem, Decision& decision) {
  ATTACCA_TRY(launch::Candidates fused,
              tune::ways_to_fuse(context.toolbox, problem, context.options.tune_options.filter));
  decision.source = "analysis";
  decision.excluded = std::move(fused.excluded);
  if (fused.ranked.empty()) return {};
  if (asks_what_is_known(context.options.tuning) && decide_by_known(context, problem, decision))
    return {};
  decision.candidate = std::move(fused.ranked.front());
  if (!measures(context.options.tuning)) return {};
  // On made-up data a kernel may do anything.
  if (const Status measured = measure(context, region, decision); !measured)
    decision.source = fmt::format("analysis, not measured: {}", measured.error().what);
  return {};
}

Status decide(const StepContext& context, const fuse::Region& region,
              const problem::Problem& problem, Decision& decision) {
  const bool is_pointwise = problem.products.empty() && !problem.kernel;
  if (context.options.unfused || is_pointwise || problem.empty()) {
    decision.source = "only way";
    return {};
  }
  decision.key =
      tune::choice_key(problem, context.toolbox->device().info(), context.toolbox->identity());
  if (problem.kernel) return decide_kernel(context, region, problem, decision);
  if (asks_what_is_known(context.options.tuning) && decide_by_known(context, problem, decision))
    return {};
  std::string model = "model";
  if (measures(context.options.tuning)) {
    const Status measured = measure(context, region, decision);
    // Who tunes wants to hear of it; a plan is needed whether there was time or not.
    if (measured || context.options.tuning == Tuning::Always) return measured;
    model += fmt::format(", not measured: {}", measured.error().what);
  }
  ATTACCA_TRY(launch::Candidates fused,
              tune::ways_to_fuse(context.toolbox, problem, context.options.tune_options.filter));
  decision.source = fused.ranked.empty() ? "only way" : model;
  decision.excluded = std::move(fused.excluded);
  if (fused.ranked.empty()) return {};
  decision.candidate = std::move(fused.ranked.front());
  decision.expected_seconds = fused.expected.front();
  return {};
}

Result<std::vector<CudaStep>> epilogue_steps(const StepContext& context, const fuse::Region& region,
                                             std::vector<Decision>& decisions) {
  ATTACCA_TRY(const problem::Problem problem,
              problem::concretize(region, context.graph, context.symbols, context.options.mode,
                                  context.alignment_of));
  Decision decision;
  decision.region = {context.partition, &region};
  ATTACCA_TRY_VOID(decide(context, region, problem, decision));
  auto step = make_step(context, problem, decision.candidate);
  if (!step && decision.candidate.kind == CandidateKind::Fused) {
    // The unfused path always remains.
    decision.source =
        fmt::format("{} failed: {}", to_string(decision.candidate), step.error().what);
    decision.candidate = {};
    decision.seconds = decision.unfused_seconds = 0;
    step = make_step(context, problem, decision.candidate);
  }
  if (!step) return tl::make_unexpected(std::move(step).error());
  decisions.push_back(std::move(decision));
  std::vector<CudaStep> steps;
  steps.push_back(*std::move(step));
  return steps;
}

// A region that there is nothing to decide about.
Result<std::vector<CudaStep>> plain_steps(const StepContext& context, const fuse::Region& region) {
  ATTACCA_TRY(const problem::Problem problem,
              problem::concretize(region, context.graph, context.symbols, context.options.mode,
                                  context.alignment_of));
  std::vector<CudaStep> steps;
  ATTACCA_TRY(CudaStep step, make_step(context, problem, {}));
  steps.push_back(std::move(step));
  return steps;
}

Result<std::vector<CudaStep>> copy_steps(const StepContext& context, ir::Value value) {
  std::vector<CudaStep> steps;
  for (const fuse::Region& region : copy_regions(context.graph, value)) {
    ATTACCA_TRY(std::vector<CudaStep> made, plain_steps(context, region));
    for (CudaStep& step : made) steps.push_back(std::move(step));
  }
  return steps;
}

// A user's kernel without a tail.
Result<std::vector<CudaStep>> kernel_steps(const StepContext& context, ir::Value value) {
  ATTACCA_TRY(const problem::KernelPart kernel,
              problem::concretize_kernel(context.graph, value, context.symbols));
  ATTACCA_TRY(auto runnable, launch::make_kernel_alone(context.toolbox, kernel));
  std::vector<CudaStep> steps;
  steps.push_back(
      step_of(std::move(runnable), {.kernel = context.graph[value].operands, .outputs = {value}}));
  return steps;
}

}  // namespace

void* Bases::at(const Place& place) const {
  switch (place.kind) {
    case Place::Kind::None:
      return nullptr;
    case Place::Kind::Input:
      return inputs[place.index];
    case Place::Kind::Output:
      return outputs[place.index];
    case Place::Kind::Constant:
      return constants + place.index;
    case Place::Kind::Workspace:
      return workspace + place.index;
  }
  return nullptr;
}

Result<std::vector<CudaStep>> make_steps(const StepContext& context, const fuse::Region& region,
                                         std::vector<Decision>& decisions) {
  if (region.kind != fuse::RegionKind::Single) return epilogue_steps(context, region, decisions);
  const ir::Value value = region.nodes[0];
  const ir::Op op = context.graph[value].op;
  if (is_copy(op)) return copy_steps(context, value);
  if (ir::is_elementwise(op) || op == ir::Op::Cast)
    return plain_steps(context, pointwise_region(context.graph, region));
  if (op == ir::Op::Kernel) return kernel_steps(context, value);
  if (op == ir::Op::MatMul) {
    ATTACCA_TRY(const fuse::Region product, matmul_region(context.graph, region));
    return plain_steps(context, product);
  }
  return make_single_steps(context, region);
}

}  // namespace attacca::run
