#include "run/cuda/together.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <tuple>

#include "launch/legality.hpp"
#include "launch/together.hpp"
#include "tune/candidates.hpp"
#include "tune/model/cost_model.hpp"
#include "tune/tuner.hpp"

namespace attacca::run {
namespace {

// One launch must take less than this part of the time of several: both times are estimates.
constexpr double kJointGain = 0.93;

// Regions with equal keys multiply the same A.
using AlikeKey = std::tuple<uint32_t, int64_t, int64_t, std::string>;

std::optional<problem::Problem> problem_of_product(const StepContext& context,
                                                   const fuse::Region& region) {
  auto made = problem::concretize(region, context.graph(), context.symbols, context.mode(),
                                  context.alignment_of);
  if (!made || made->empty() || made->products.size() != 1 || made->batch != 1 ||
      !made->outer.empty())
    return std::nullopt;  // an error is reported where the region alone is made
  return *std::move(made);
}

// For each value that a region computes, the region's place.
std::map<uint32_t, size_t> places_of_results(const std::vector<fuse::Region>& regions) {
  std::map<uint32_t, size_t> places;
  for (size_t i = 0; i < regions.size(); ++i)
    for (const ir::Value output : regions[i].outputs) places[output.id] = i;
  return places;
}

bool can_run_at(size_t place, const fuse::Region& region,
                const std::map<uint32_t, size_t>& computed_at) {
  return std::all_of(region.inputs.begin(), region.inputs.end(), [&](ir::Value input) {
    const auto found = computed_at.find(input.id);
    return found == computed_at.end() || found->second < place;
  });
}

// The problem as if the weights of all lay side by side, each from a tile's first column on: what
// the cost model knows.
problem::Problem side_by_side(const std::vector<problem::Problem>& problems,
                              const templates::Template& kernel) {
  const int64_t tile = std::max(1, kernel.hole.swapped ? kernel.tile.m : kernel.tile.n);
  problem::Problem all = problems[0];
  all.n = 0;
  for (const problem::Problem& each : problems) all.n += (each.n + tile - 1) / tile * tile;
  all.products[0].n = all.n;
  return all;
}

// What the model expects of a problem alone, computed in the best way.
double expected_alone(const StepContext& context, const problem::Problem& problem) {
  const gpu::DeviceInfo& device = context.toolbox()->device().info();
  const auto fused = tune::fused_candidates(problem, context.toolbox()->catalog(), device,
                                            context.options().tune_options.filter.allow);
  double best = context.toolbox()->vendor() ? tune::estimated_unfused(problem, device)[0].seconds
                                            : std::numeric_limits<double>::infinity();
  if (!fused.expected.empty()) best = std::min(best, fused.expected.front());
  return best;
}

// Whether the template computes all problems alike, with the candidate's binding.
bool computes_all(const StepContext& context, const std::vector<problem::Problem>& problems,
                  const templates::Template& kernel, const launch::Candidate& candidate) {
  if (launch::reason_against_several(problems[0], kernel)) return false;
  launch::Toolbox& toolbox = *context.toolbox();
  for (const problem::Problem& problem : problems) {
    const launch::Legality legal = launch::legality(problem, kernel, toolbox.device().info());
    const auto* binding = std::get_if<0>(&legal);
    if (!binding || serialize(**binding) != serialize(*candidate.binding)) return false;
  }
  // What came with kernels may not be able to compile more.
  return !toolbox.bundle() || toolbox.has(launch::request_of_several(
                                  problems[0], kernel, *candidate.binding,
                                  toolbox.device().info().capability(), problems.size()));
}

}  // namespace

std::vector<std::vector<size_t>> regions_alike(const StepContext& context,
                                               const std::vector<fuse::Region>& regions) {
  if (context.batch_invariant() || context.options().tuning == Tuning::Unfused) return {};
  std::map<uint32_t, int> readers;  // of each A
  for (const fuse::Region& region : regions)
    if (region.kind == fuse::RegionKind::Gemm) ++readers[region.gemms[0].a.source.id];
  const std::map<uint32_t, size_t> computed_at = places_of_results(regions);
  std::map<AlikeKey, std::vector<std::vector<size_t>>> alike;
  for (size_t i = 0; i < regions.size(); ++i) {
    const fuse::Region& region = regions[i];
    if (region.kind != fuse::RegionKind::Gemm || readers[region.gemms[0].a.source.id] < 2) continue;
    const auto problem = problem_of_product(context, region);
    if (!problem) continue;
    auto& groups = alike[{region.gemms[0].a.source.id, problem->m, problem->products[0].k,
                          problem_class(*problem)}];
    if (groups.empty() || groups.back().size() == launch::kMostTogether ||
        !can_run_at(groups.back().front(), region, computed_at))
      groups.emplace_back();
    groups.back().push_back(i);
  }
  std::vector<std::vector<size_t>> found;
  for (auto& [key, groups] : alike)
    for (std::vector<size_t>& group : groups)
      if (group.size() > 1) found.push_back(std::move(group));
  return found;
}

std::optional<JointLaunch> decide_together(const StepContext& context,
                                           const std::vector<problem::Problem>& problems,
                                           const std::vector<Decision>& decisions) {
  const gpu::DeviceInfo& device = context.toolbox()->device().info();
  const tune::TemplateFilter& filter = context.options().tune_options.filter;
  launch::Candidates fused =
      tune::fused_candidates(problems[0], context.toolbox()->catalog(), device, filter.allow);
  apply(filter, fused);
  JointLaunch joint{.candidate = {}, .regions = problems.size()};
  double measured = 0;
  bool all_measured = true;
  for (size_t i = 0; i < problems.size(); ++i) {
    joint.expected_apart_seconds += expected_alone(context, problems[i]);
    measured += decisions[i].seconds;
    all_measured &= decisions[i].seconds > 0;
  }
  if (all_measured) joint.expected_apart_seconds = std::min(joint.expected_apart_seconds, measured);
  joint.expected_seconds = kJointGain * joint.expected_apart_seconds;
  for (launch::Candidate& candidate : fused.ranked) {
    const templates::Template& kernel = *context.toolbox()->catalog().find(candidate.kernel);
    const double seconds =
        tune::expected_seconds(side_by_side(problems, kernel), kernel, *candidate.binding, device);
    if (seconds >= joint.expected_seconds || !computes_all(context, problems, kernel, candidate))
      continue;
    joint.candidate = std::move(candidate);
    joint.expected_seconds = seconds;
  }
  if (joint.candidate.kernel.empty()) return std::nullopt;
  return joint;
}

}  // namespace attacca::run
