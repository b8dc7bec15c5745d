#include "tune/candidates.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <fnmatch.h>
#include <limits>
#include <map>
#include <numeric>

#include "fmt/format.h"

#include "launch/legality.hpp"
#include "launch/vendor_epilogue.hpp"
#include "templates/sum_order.hpp"
#include "tune/model/architecture.hpp"
#include "tune/model/cost_model.hpp"
#include "tune/model/ranking_tree.hpp"
#include "tune/model/unfused_model.hpp"

namespace attacca::tune {

using templates::Template;

namespace {

// A template that computes a product alone is worth its measurement if it is expected to take at
// most this part of the library's time. Another one is while its expected time may be wrong by the
// standard deviation of such times (docs/benchmarks/ranking.md).
constexpr double kBareGain = 0.97, kTemplateError = 1.125;
// What an estimate may be off by where nothing was measured.
constexpr double kErrorUnlearned = 2;

auto match(const std::vector<std::string>& patterns, const std::string& name) {
  return std::find_if(patterns.begin(), patterns.end(), [&](const std::string& pattern) {
    return fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
  });
}

// Chooses one order of sums for all numbers of rows: that whose templates are expected to be the
// fastest for numbers of rows as decoding and prefilling have them, by the geometric mean of the
// best one's times. Operands of the tail are ranked as if they had one row, so that a graph that is
// written for one row ranks alike.
class InvariantOrder {
 public:
  explicit InvariantOrder(const problem::Problem& problem) {
    for (size_t i = 0; i < kRows.size(); ++i) problems_[i] = with_rows_alike(problem, kRows[i]);
  }

  // The template's own order; empty: such a tail does not fit.
  std::string add(const Template& kernel, const gpu::DeviceInfo& device) {
    const launch::Legality legal = launch::legality(problems_[0], kernel, device);
    const auto* binding = std::get_if<std::shared_ptr<const epilogue::Binding>>(&legal);
    if (binding == nullptr) return {};
    auto& [order, best] = *orders_.try_emplace(templates::sum_order(kernel), kNever).first;
    for (size_t i = 0; i < kRows.size(); ++i)
      best[i] = std::min(best[i], expected_seconds(problems_[i], kernel, **binding, device));
    return order;
  }

  // Of equally good ones, the first by name; empty if no template fits.
  std::string chosen() const {
    const auto best = std::min_element(
        orders_.begin(), orders_.end(),
        [](const auto& a, const auto& b) { return logarithms(a.second) < logarithms(b.second); });
    return best == orders_.end() ? std::string() : best->first;
  }

 private:
  static constexpr std::array<int64_t, 6> kRows = {1, 16, 64, 256, 1024, 8192};
  using Seconds = std::array<double, kRows.size()>;
  static constexpr Seconds kNever = [] {
    Seconds never;
    never.fill(std::numeric_limits<double>::infinity());
    return never;
  }();

  static double logarithms(const Seconds& seconds) {
    return std::accumulate(seconds.begin(), seconds.end(), 0.0,
                           [](double sum, double each) { return sum + std::log(each); });
  }

  std::array<problem::Problem, kRows.size()> problems_;
  std::map<std::string, Seconds> orders_;
};

// Keeps the templates that sum in the order which is chosen for all numbers of rows.
void keep_one_order(const problem::Problem& problem, const templates::Catalog& catalog,
                    const gpu::DeviceInfo& device, launch::Candidates& candidates) {
  InvariantOrder order(problem);
  std::vector<std::string> own;
  for (const launch::Candidate& each : candidates.ranked)
    own.push_back(order.add(*catalog.find(each.kernel), device));
  const std::string chosen = order.chosen();
  launch::Candidates kept;
  kept.excluded = std::move(candidates.excluded);
  for (size_t i = 0; i < own.size(); ++i) {
    launch::Candidate& each = candidates.ranked[i];
    if (own[i].empty()) {
      kept.excluded.push_back({each.kernel, "batch_invariant: it does not take one row's tail"});
    } else if (own[i] != chosen) {
      kept.excluded.push_back(
          {each.kernel,
           fmt::format("batch_invariant: its sums are in another order (chosen for every number of "
                       "rows: {})",
                       chosen)});
    } else {
      kept.ranked.push_back(std::move(each));
      kept.expected.push_back(candidates.expected[i]);
    }
  }
  candidates = std::move(kept);
}

}  // namespace

launch::Candidates fused_candidates(const problem::Problem& problem,
                                    const templates::Catalog& catalog,
                                    const gpu::DeviceInfo& device,
                                    const std::vector<std::string>& named) {
  struct Ranked {
    launch::Candidate candidate;
    double seconds;
  };
  launch::Candidates result;
  std::vector<Ranked> ranked;
  for (const Template& kernel : catalog.templates()) {
    if (kernel.family != templates::Family::Gemm) continue;
    if (kernel.only_named_on == device.capability() && match(named, kernel.name) == named.end()) {
      result.excluded.push_back({kernel.name, "this device runs it only if it is named"});
      continue;
    }
    launch::Legality legal = launch::legality(problem, kernel, device);
    if (auto* reason = std::get_if<std::string>(&legal)) {
      result.excluded.push_back({kernel.name, std::move(*reason)});
      continue;
    }
    launch::Candidate candidate{.kind = launch::CandidateKind::Fused,
                                .kernel = kernel.name,
                                .binding = std::get<0>(std::move(legal))};
    const double seconds =
        double(launches(problem)) * expected_seconds(problem, kernel, *candidate.binding, device);
    ranked.push_back({std::move(candidate), seconds});
  }
  std::stable_sort(ranked.begin(), ranked.end(),
                   [](const Ranked& a, const Ranked& b) { return a.seconds < b.seconds; });
  for (Ranked& each : ranked) {
    result.ranked.push_back(std::move(each.candidate));
    result.expected.push_back(each.seconds);
  }
  if (problem.batch_invariant) keep_one_order(problem, catalog, device, result);
  return result;
}

std::vector<Estimated> estimated_unfused(const problem::Problem& problem,
                                         const gpu::DeviceInfo& device) {
  std::vector<Estimated> found;
  for (const launch::VendorEpilogue& way : launch::vendor_epilogues(problem)) {
    launch::Candidate candidate;
    candidate.absorbed = static_cast<int>(found.size());
    const auto [seconds, margin] = expected_unfused(problem, way, device);
    found.push_back({std::move(candidate), double(launches(problem)) * seconds, margin});
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const Estimated& a, const Estimated& b) { return a.seconds < b.seconds; });
  return found;
}

bool prefers_unfused(const launch::Candidates& fused, const Estimated& unfused,
                     const gpu::DeviceInfo& device) {
  if (fused.ranked.empty()) return true;
  const double margin =
      architecture_of(device).learned ? std::exp(unfused.margin) : 1 / kErrorUnlearned;
  return unfused.seconds < fused.expected.front() * margin;
}

bool may_gain(const problem::Problem& problem, const launch::Candidates& fused,
              const Estimated& unfused, const gpu::DeviceInfo& device) {
  if (!architecture_of(device).learned || fused.ranked.empty()) return true;
  const bool bare = launch::is_bare_product(problem, launch::vendor_epilogues(problem).front());
  return fused.expected.front() <= (bare ? kBareGain : kTemplateError) * unfused.seconds;
}

void apply(const TemplateFilter& filter, launch::Candidates& candidates) {
  launch::Candidates kept;
  kept.excluded = std::move(candidates.excluded);
  kept.doubt = std::move(candidates.doubt);
  for (size_t i = 0; i < candidates.ranked.size(); ++i) {
    const std::string& name = candidates.ranked[i].kernel;
    const auto denied = match(filter.deny, name);
    if (denied != filter.deny.end()) {
      kept.excluded.push_back({name, fmt::format("denied by the pattern {}", *denied)});
    } else if (!filter.allow.empty() && match(filter.allow, name) == filter.allow.end()) {
      kept.excluded.push_back(
          {name, fmt::format("not allowed by {}", fmt::join(filter.allow, ", "))});
    } else {
      if (i < candidates.expected.size()) kept.expected.push_back(candidates.expected[i]);
      kept.ranked.push_back(std::move(candidates.ranked[i]));
    }
  }
  candidates = std::move(kept);
}

std::vector<launch::Candidate> variants(const launch::Candidate& candidate, const Template& kernel,
                                        const problem::Problem& problem,
                                        const gpu::DeviceInfo& device) {
  std::vector<launch::Candidate> result = {candidate};
  const auto add = [&](int swizzle, int raster, int splits) {
    launch::Candidate variant = candidate;
    variant.swizzle = swizzle;
    variant.raster = raster;
    variant.splits = splits;
    if (variant != candidate) result.push_back(variant);
  };
  if (kernel.stream_k)
    for (const int splits : {1, 2, 3, 4, 6, 8})
      if (problem.products[0].k / splits >= 4 * kernel.tile.k) add(0, 0, splits);
  // The order of tiles matters only where they run over the device in several waves and share what
  // they read.
  if (kernel.schedule != templates::Schedule::Dot && waves(problem, kernel, 1, device) > 1)
    for (const int raster : {1, 2})
      for (const int swizzle : {1, 2, 4, 8}) add(swizzle, raster, 0);
  return result;
}

}  // namespace attacca::tune
