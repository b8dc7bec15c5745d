#include "run/cuda/together.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <tuple>

#include "fmt/format.h"
#include "fmt/ranges.h"

#include "launch/fused.hpp"
#include "launch/legality.hpp"
#include "launch/together.hpp"
#include "problem/region_graph.hpp"
#include "support/warnings.hpp"
#include "tune/candidates.hpp"
#include "tune/database.hpp"
#include "tune/model/cost_model.hpp"
#include "tune/shipped.hpp"
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

// A multiple of the cluster, at least of one; what a template leaves open is 0.
int64_t whole_clusters(int64_t size, int cluster) {
  const int64_t each = std::max(1, cluster);
  return (size + each - 1) / each * each;
}

// The problem as if the weights of all lay side by side, each with whole clusters of tiles: what
// the cost model knows.
problem::Problem side_by_side(const std::vector<problem::Problem>& problems,
                              const templates::Template& kernel) {
  problem::Problem all = problems[0];
  all.n = 0;
  for (const problem::Problem& each : problems) all.n += columns_of_whole_clusters(each.n, kernel);
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
                  const templates::Template& kernel, const launch::Candidate& candidate,
                  bool has_signals) {
  if (launch::reason_against_several(problems[0], kernel)) return false;
  launch::Toolbox& toolbox = *context.toolbox();
  for (const problem::Problem& problem : problems) {
    const launch::Legality legal = launch::legality(problem, kernel, toolbox.device().info());
    const auto* binding = std::get_if<0>(&legal);
    if (!binding || serialize(**binding) != serialize(*candidate.binding)) return false;
  }
  // What came with kernels may not be able to compile more.
  return !toolbox.bundle() ||
         toolbox.has(launch::kernel_request(problems[0], kernel, *candidate.binding,
                                            toolbox.device().info().capability(), problems.size(),
                                            has_signals));
}

// The time of a launch for each problem: the model's sum, or the measured one if that is less.
double expected_apart(const StepContext& context, const std::vector<problem::Problem>& problems,
                      const std::vector<Decision>& decisions) {
  double expected = 0, measured = 0;
  bool all_measured = true;
  for (size_t i = 0; i < problems.size(); ++i) {
    expected += expected_alone(context, problems[i]);
    measured += decisions[i].seconds;
    all_measured &= decisions[i].seconds > 0;
  }
  return all_measured ? std::min(expected, measured) : expected;
}

tune::ChoiceKey key_of(const StepContext& context, const std::vector<problem::Problem>& problems) {
  tune::ChoiceKey key = tune::choice_key(problems[0], context.toolbox()->device().info(),
                                         context.toolbox()->identity());
  std::vector<int64_t> columns;
  for (const problem::Problem& problem : problems) columns.push_back(problem.n);
  key.problem = "together: " + key.problem;
  key.shape += fmt::format(" of {}", fmt::join(columns, "+"));
  return key;
}

// What was measured before, if anything.
std::optional<tune::Choice> known_choice(const StepContext& context, const tune::ChoiceKey& key,
                                         Source& source) {
  source = Source::Database;
  if (auto database = tune::Database::open())
    if (auto found = database->find(key); found && *found) return *found;
  source = Source::Shipped;
  return tune::ShippedChoices::get().find(key, tune::fingerprints(context.toolbox()->catalog()));
}

// Candidates that a tuning times.
constexpr size_t kMostTimed = 12;

std::optional<tune::Choice> measured_choice(const StepContext& context,
                                            const std::vector<const fuse::Region*>& regions,
                                            const std::vector<Decision>& decisions,
                                            const std::vector<Joint>& ranked,
                                            const tune::ChoiceKey& key) {
  std::vector<problem::ProblemText> texts;
  std::vector<launch::Candidate> apart, candidates;
  for (size_t i = 0; i < regions.size(); ++i) {
    auto text = problem::write_problem(context.graph(), *regions[i], context.symbols,
                                       context.mode(), context.alignment_of);
    if (!text) return std::nullopt;
    texts.push_back(*std::move(text));
    apart.push_back(decisions[i].candidate);
  }
  for (size_t i = 0; i < std::min(kMostTimed, ranked.size()); ++i)
    candidates.push_back(ranked[i].candidate);
  const auto tuned = tune::tune_together(context.toolbox(), texts, apart, std::move(candidates),
                                         context.options().tune_options);
  if (!tuned) return std::nullopt;  // the model decides
  // What a choice among some templates is worth among all was not seen.
  if (!context.options().tune_options.filter.takes_all()) return tuned->choice;
  // If the database cannot be written, the next process measures again; this one goes on.
  const Status stored = tune::Database::open().and_then(
      [&](tune::Database&& database) { return database.store(key, tuned->choice); });
  if (!stored) warn(stored.error());
  return tuned->choice;
}

// The launch of a measured choice; nothing if launches apart were faster.
std::optional<JointLaunch> as_measured(const tune::Choice& choice, Source source,
                                       const std::vector<Joint>& ranked, size_t regions) {
  const auto found = std::find_if(ranked.begin(), ranked.end(), [&](const Joint& each) {
    return each.candidate == choice.candidate;
  });
  if (found == ranked.end()) return std::nullopt;
  return JointLaunch{found->candidate, regions, source, choice.seconds, choice.unfused_seconds};
}

// What came with kernels may not be able to make those for a launch of each.
bool may_be_apart(const StepContext& context, const std::vector<problem::Problem>& problems,
                  const std::vector<Decision>& decisions) {
  launch::Toolbox& toolbox = *context.toolbox();
  if (!toolbox.bundle()) return true;
  for (size_t i = 0; i < problems.size(); ++i) {
    const launch::Candidate& candidate = decisions[i].candidate;
    if (candidate.kind != launch::CandidateKind::Fused) continue;
    if (!toolbox.has(launch::kernel_request(problems[i], *toolbox.catalog().find(candidate.kernel),
                                            *candidate.binding,
                                            toolbox.device().info().capability())))
      return false;
  }
  return true;
}

}  // namespace

int64_t rows_of_whole_clusters(int64_t rows, const templates::Template& kernel) {
  const templates::Tile& tile = kernel.tile;
  return whole_clusters(
      rows, kernel.hole.swapped ? tile.n * kernel.cluster_n : tile.m * kernel.cluster_m);
}

int64_t columns_of_whole_clusters(int64_t columns, const templates::Template& kernel) {
  const templates::Tile& tile = kernel.tile;
  return whole_clusters(
      columns, kernel.hole.swapped ? tile.m * kernel.cluster_m : tile.n * kernel.cluster_n);
}

std::vector<Joint> ranked_joint(
    const StepContext& context, const std::vector<problem::Problem>& problems,
    const std::function<problem::Problem(const templates::Template&)>& whole, bool has_signals) {
  const gpu::DeviceInfo& device = context.toolbox()->device().info();
  const tune::TemplateFilter& filter = context.options().tune_options.filter;
  launch::Candidates fused =
      tune::fused_candidates(problems[0], context.toolbox()->catalog(), device, filter.allow);
  apply(filter, fused);
  std::vector<Joint> ranked;
  for (launch::Candidate& candidate : fused.ranked) {
    const templates::Template& kernel = *context.toolbox()->catalog().find(candidate.kernel);
    if (!computes_all(context, problems, kernel, candidate, has_signals)) continue;
    const double expected =
        tune::expected_seconds(whole(kernel), kernel, *candidate.binding, device);
    ranked.push_back({std::move(candidate), expected});
  }
  std::stable_sort(ranked.begin(), ranked.end(),
                   [](const Joint& a, const Joint& b) { return a.expected < b.expected; });
  return ranked;
}

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
                                           const std::vector<const fuse::Region*>& regions,
                                           const std::vector<problem::Problem>& problems,
                                           const std::vector<Decision>& decisions) {
  const std::vector<Joint> ranked = ranked_joint(
      context, problems,
      [&](const templates::Template& kernel) { return side_by_side(problems, kernel); }, false);
  if (ranked.empty()) return std::nullopt;
  const Tuning tuning = context.options().tuning;
  const tune::ChoiceKey key = key_of(context, problems);
  Source source = Source::Database;
  if (tuning == Tuning::Known || tuning == Tuning::Measure)
    if (const auto known = known_choice(context, key, source))
      return as_measured(*known, source, ranked, problems.size());
  const bool measures = tuning == Tuning::Measure || tuning == Tuning::Always;
  if (measures && !context.options().tune_options.quick)
    if (const auto chosen = measured_choice(context, regions, decisions, ranked, key))
      return as_measured(*chosen, Source::Measured, ranked, problems.size());
  const double apart = expected_apart(context, problems, decisions);
  if (ranked[0].expected >= kJointGain * apart && may_be_apart(context, problems, decisions))
    return std::nullopt;
  return JointLaunch{ranked[0].candidate, problems.size(), Source::Model, ranked[0].expected,
                     apart};
}

}  // namespace attacca::run
