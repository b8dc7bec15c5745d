#include "run/cuda/steps.hpp"

#include "fmt/format.h"

#include "launch/prepare.hpp"
#include "launch/together.hpp"
#include "launch/user_kernel.hpp"
#include "run/cuda/decide.hpp"
#include "run/cuda/single.hpp"
#include "run/cuda/together.hpp"
#include "run/shared/single_regions.hpp"

namespace attacca::run {
namespace {

using launch::Candidate;
using launch::CandidateKind;

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

Result<problem::Problem> problem_of(const StepContext& context, const fuse::Region& region) {
  ATTACCA_TRY(problem::Problem problem,
              problem::concretize(region, context.graph(), context.symbols, context.mode(),
                                  context.alignment_of));
  if (context.batch_invariant()) make_batch_invariant(problem);
  return problem;
}

Result<CudaStep> make_step(const StepContext& context, const problem::Problem& problem,
                           const Candidate& candidate) {
  ATTACCA_TRY(auto runnable, launch::prepare(context.toolbox(), problem, candidate));
  return step_of(std::move(runnable), values_of(problem, candidate));
}

// The step of a decision, which becomes that for the unfused path if its kernel cannot be made.
Result<CudaStep> step_as_decided(const StepContext& context, const problem::Problem& problem,
                                 Decision& decision) {
  auto step = make_step(context, problem, decision.candidate);
  if (!step && decision.candidate.kind == CandidateKind::Fused && !problem.batch_invariant) {
    // The unfused path is always possible. It sums in another order.
    decision.source = Source::Fallback;
    decision.remark =
        fmt::format("{} failed: {}", to_string(decision.candidate), step.error().what);
    decision.candidate = {};
    decision.gathers_before = names_rows(problem);
    decision.widens_before = has_codes(problem);
    decision.seconds = decision.unfused_seconds = 0;
    decision.expected_seconds = decision.expected_unfused_seconds;
    decision.quick = false;
    step = make_step(context, problem, decision.candidate);
  }
  if (!step) return step;
  step->region = decision.region.get();
  return step;
}

Result<std::vector<CudaStep>> epilogue_steps(const StepContext& context, const fuse::Region& region,
                                             std::vector<Decision>& decisions) {
  ATTACCA_TRY(const problem::Problem problem, problem_of(context, region));
  ATTACCA_TRY(Decision decision, decide(context, region, problem));
  std::vector<CudaStep> steps(1);
  ATTACCA_TRY(steps[0], step_as_decided(context, problem, decision));
  decisions.push_back(std::move(decision));
  return steps;
}

// The one step of the launch that was chosen; nothing if its kernel cannot be made.
std::optional<CudaStep> joint_step(const StepContext& context,
                                   const std::vector<problem::Problem>& problems,
                                   const JointLaunch& joint) {
  auto runnable = launch::make_together(context.toolbox(), problems, joint.candidate);
  if (!runnable) return std::nullopt;
  std::vector<problem::Operands<ir::Value>> values;
  for (const problem::Problem& problem : problems)
    values.push_back(values_of(problem, joint.candidate));
  return step_of(*std::move(runnable), problem::one_after_another(values));
}

// A region with only one way to compute it.
Result<std::vector<CudaStep>> plain_steps(const StepContext& context, const fuse::Region& region) {
  ATTACCA_TRY(const problem::Problem problem, problem_of(context, region));
  std::vector<CudaStep> steps;
  ATTACCA_TRY(CudaStep step, make_step(context, problem, {}));
  steps.push_back(std::move(step));
  return steps;
}

Result<std::vector<CudaStep>> copy_steps(const StepContext& context, ir::Value value) {
  std::vector<CudaStep> steps;
  for (const fuse::Region& region : copy_regions(context.graph(), value)) {
    ATTACCA_TRY(std::vector<CudaStep> made, plain_steps(context, region));
    for (CudaStep& step : made) steps.push_back(std::move(step));
  }
  return steps;
}

// A user's kernel without a tail.
Result<std::vector<CudaStep>> kernel_steps(const StepContext& context, ir::Value value) {
  ATTACCA_TRY(const problem::KernelPart kernel,
              problem::concretize_kernel(context.graph(), value, context.symbols));
  ATTACCA_TRY(auto runnable, launch::make_kernel_alone(context.toolbox(), kernel));
  std::vector<CudaStep> steps;
  steps.push_back(step_of(std::move(runnable),
                          {.kernel = context.graph()[value].operands, .outputs = {value}}));
  return steps;
}

}  // namespace

problem::Operands<ir::Value> values_of(const problem::Problem& problem,
                                       const Candidate& candidate) {
  problem::Operands<ir::Value> values = problem.sources;
  if (problem.kernel && candidate.kind == CandidateKind::Unfused) return values;
  for (size_t i = 0; i < values.inputs.size(); ++i)
    if (problem.epilogue.inputs[i].role == epilogue::Role::Accumulator)
      values.inputs[i] = values.outputs[0];
  return values;
}

Result<std::vector<CudaStep>> make_steps(const StepContext& context, const fuse::Region& region,
                                         std::vector<Decision>& decisions) {
  if (region.kind != fuse::RegionKind::Single) return epilogue_steps(context, region, decisions);
  const ir::Value value = region.nodes[0];
  const ir::Op op = context.graph()[value].op;
  if (is_copy(op)) return copy_steps(context, value);
  if (ir::is_elementwise(op) || op == ir::Op::Cast)
    return plain_steps(context, pointwise_region(context.graph(), region));
  if (op == ir::Op::Kernel) return kernel_steps(context, value);
  if (op == ir::Op::MatMul) {
    ATTACCA_TRY(const fuse::Region product, matmul_region(context.graph(), region));
    return plain_steps(context, product);
  }
  return make_single_steps(context, region);
}

Result<std::vector<CudaStep>> make_steps_together(const StepContext& context,
                                                  const std::vector<const fuse::Region*>& regions,
                                                  std::vector<Decision>& decisions) {
  std::vector<problem::Problem> problems;
  std::vector<Decision> own;
  for (const fuse::Region* region : regions) {
    ATTACCA_TRY(problems.emplace_back(), problem_of(context, *region));
    ATTACCA_TRY(own.emplace_back(), decide(context, *region, problems.back()));
  }
  std::vector<CudaStep> steps;
  if (const auto joint = decide_together(context, regions, problems, own)) {
    if (auto step = joint_step(context, problems, *joint)) {
      step->region = regions.front();
      steps.push_back(*std::move(step));
      for (Decision& decision : own) decision.joint = joint;
    }
  }
  for (size_t i = 0; steps.size() < regions.size() && !own[i].joint; ++i) {
    ATTACCA_TRY(CudaStep step, step_as_decided(context, problems[i], own[i]));
    steps.push_back(std::move(step));
  }
  std::move(own.begin(), own.end(), std::back_inserter(decisions));
  return steps;
}

}  // namespace attacca::run
