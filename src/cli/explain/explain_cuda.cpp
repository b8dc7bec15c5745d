#include "cli/explain/explain_cuda.hpp"

#include "fmt/format.h"

#include "cli/explain/decisions.hpp"
#include "launch/legality.hpp"
#include "launch/unfused.hpp"
#include "launch/user_kernel.hpp"
#include "tune/candidates.hpp"

namespace attacca::cli {

Result<Ranking> rank(Job job, const run::Prepared& prepared, const ExplainArgs& args) {
  const gpu::DeviceInfo& device = prepared.target.device->info();
  const fuse::Partition& partition = *prepared.partition;
  ATTACCA_TRY(const templates::Catalog catalog, templates::Catalog::open(nullptr));
  ATTACCA_TRY_VOID(bind_dims(job, args.dims));
  Ranking ranking{device.name, std::move(job), {}};
  launch::UserKernelFiles kernels;
  for (size_t i = 0; i < partition.regions.size(); ++i) {
    const fuse::Region& region = partition.regions[i];
    if (!region.kernel && (region.kind == fuse::RegionKind::Single || region.gemms.empty()))
      continue;
    ATTACCA_TRY(problem::Problem problem,
                problem::concretize(region, partition.graph, ranking.job.symbols,
                                    prepared.target.mode, [](ir::Value) { return 16; }));
    if (prepared.target.batch_invariant) make_batch_invariant(problem);
    if (problem.empty()) continue;
    if (region.kernel) {
      ATTACCA_TRY(launch::Candidates found, launch::kernel_candidates(kernels, device, problem));
      tune::apply({args.allow, args.deny}, found);
      ranking.regions.push_back({i + 1, std::move(found), true});
      continue;
    }
    RankedRegion ranked{i + 1, tune::fused_candidates(problem, catalog, device, args.allow)};
    tune::apply({args.allow, args.deny}, ranked.candidates);
    ranked.templates = ranked.candidates.ranked.size() + ranked.candidates.excluded.size();
    ranked.names_rows = names_rows(problem);
    ranked.has_codes = has_codes(problem);
    for (const launch::Candidate& each : ranked.candidates.ranked) {
      ranked.gathers_before.push_back(launch::gathers_before(problem, each, catalog));
      ranked.widens_before.push_back(launch::widens_before(problem, each, catalog));
    }
    if (problem.batch_invariant) {
      ranked.candidates.excluded.push_back({"unfused", std::string(launch::kVariantVendor)});
    } else {
      ranked.unfused = tune::estimated_unfused(problem, device).front();
      ranked.prefers_unfused = tune::prefers_unfused(ranked.candidates, *ranked.unfused, device);
    }
    ranking.regions.push_back(std::move(ranked));
  }
  return ranking;
}

std::string to_text(const Ranking& ranking) {
  std::string text = "\n" + dims_line(ranking.job);
  for (const RankedRegion& region : ranking.regions) {
    const launch::Candidates& all = region.candidates;
    if (region.is_kernel) {
      text += fmt::format("region {} on {}: {}\n", region.number, ranking.device,
                          all.ranked.empty() ? "its kernel, then the tail"
                                             : "its kernel stores what the tail gives");
      for (const launch::Exclusion& each : all.excluded)
        text += fmt::format("  not fused: {}\n", each.reason);
      continue;
    }
    text += fmt::format("region {} on {}: {} of {} templates can compute it\n", region.number,
                        ranking.device, all.ranked.size(), region.templates);
    if (region.unfused)
      text += fmt::format("  {}{}{}, expected {:.2f} us{}\n", to_string(region.unfused->candidate),
                          region.names_rows ? kGathersBefore : "",
                          region.has_codes ? kWidensBefore : "", region.unfused->seconds * 1e6,
                          region.prefers_unfused ? ": taken where nothing was measured" : "");
    for (size_t i = 0; i < all.ranked.size(); ++i)
      text += fmt::format("  {:3}. {}{}{}, expected {:.2f} us\n", i + 1, to_string(all.ranked[i]),
                          region.gathers_before[i] ? kGathersBefore : "",
                          region.widens_before[i] ? kWidensBefore : "", all.expected[i] * 1e6);
    for (const launch::Exclusion& each : all.excluded)
      text += fmt::format("  not {}: {}\n", each.kernel, each.reason);
  }
  return text;
}

json::Value to_json(const Ranking& ranking) {
  json::Value regions = json::Value::array();
  for (const RankedRegion& region : ranking.regions) {
    json::Value ranked = json::Value::array();
    for (size_t i = 0; i < region.candidates.ranked.size(); ++i) {
      json::Value each = json::Value::object().set("template", region.candidates.ranked[i].kernel);
      if (!region.is_kernel) each.set("expected_us", region.candidates.expected[i] * 1e6);
      if (region.names_rows) each.set("gathers_before", bool(region.gathers_before[i]));
      if (region.has_codes) each.set("widens_before", bool(region.widens_before[i]));
      ranked.push(std::move(each));
    }
    json::Value entry = json::Value::object();
    entry.set("region", region.number)
        .set("device", ranking.device)
        .set("dims", dims_json(ranking.job.symbols))
        .set("ranked", std::move(ranked))
        .set("excluded", run::exclusions_json(region.candidates.excluded));
    if (region.unfused)
      entry.set("unfused", json::Value::object()
                               .set("candidate", to_string(region.unfused->candidate))
                               .set("expected_us", region.unfused->seconds * 1e6)
                               .set("preferred", region.prefers_unfused));
    regions.push(std::move(entry));
  }
  return regions;
}

}  // namespace attacca::cli
