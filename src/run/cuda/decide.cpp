#include "run/cuda/decide.hpp"

#include "fmt/format.h"

#include "launch/fused.hpp"
#include "launch/legality.hpp"
#include "launch/prepare.hpp"
#include "launch/unfused.hpp"
#include "launch/user_kernel.hpp"
#include "problem/region_graph.hpp"
#include "support/warnings.hpp"
#include "tune/candidates.hpp"
#include "tune/database.hpp"
#include "tune/model/proposal_model.hpp"
#include "tune/shipped.hpp"
#include "tune/tuner.hpp"

namespace attacca::run {
namespace {

using launch::Candidate;
using launch::CandidateKind;

// Whether a candidate that was read may be taken; gives it its binding. Its template must be built,
// compute the problem and pass the filter, or the vendor library must have its algorithm.
bool is_at_hand(const StepContext& context, const problem::Problem& problem, Candidate& candidate) {
  if (candidate.kind != CandidateKind::Fused)
    return candidate == Candidate{} || problem.kernel ||
           launch::prepare(context.toolbox(), problem, candidate).has_value();
  launch::Candidates one{.ranked = {candidate}, .expected = {}, .excluded = {}};
  apply(context.options().tune_options.filter, one);
  if (one.ranked.empty()) return false;
  auto resolved = launch::resolve(candidate, problem, context.toolbox()->catalog(),
                                  context.toolbox()->device().info());
  if (resolved) candidate = *std::move(resolved);
  return resolved.has_value();
}

bool asks_what_is_known(Tuning tuning) {
  return tuning == Tuning::Known || tuning == Tuning::Measure;
}

bool measures(Tuning tuning) {
  return tuning == Tuning::Measure || tuning == Tuning::Always;
}

// Writes the choice into the decision, if its candidate may be taken.
bool take(const StepContext& context, const problem::Problem& problem, const tune::Choice& choice,
          Source source, Decision& decision) {
  Candidate candidate = choice.candidate;
  if (!is_at_hand(context, problem, candidate)) return false;
  decision.candidate = std::move(candidate);
  decision.seconds = choice.seconds;
  decision.unfused_seconds = choice.unfused_seconds;
  decision.quick = choice.quick;
  decision.source = source;
  return true;
}

// The choice that a bundle's kernels were made for.
bool decide_by_bundle(const StepContext& context, const problem::Problem& problem,
                      Decision& decision) {
  if (!context.options().bundle) return false;
  for (const KnownChoice& known : context.options().bundle->choices)
    if (known.key.problem == decision.key.problem && known.key.shape == decision.key.shape &&
        take(context, problem, known.choice, Source::Bundle, decision))
      return true;
  return false;
}

// Whether a choice makes another measurement needless.
bool is_enough(const StepContext& context, const tune::Choice& choice) {
  return !choice.quick || context.options().tune_options.quick ||
         !measures(context.options().tuning);
}

// A choice from the options, else from the database, else one that came with Attacca, written into
// the decision, unless it is to be measured again. Choices of quick tunings come last.
bool decide_by_known(const StepContext& context, const problem::Problem& problem,
                     Decision& decision) {
  for (const KnownChoice& known : context.options().choices)
    if (known.key == decision.key && is_enough(context, known.choice) &&
        take(context, problem, known.choice, Source::Plan, decision))
      return true;
  const auto found = tune::Database::open().and_then(
      [&](tune::Database&& database) { return database.find(decision.key); });
  if (!found) warn(found.error());
  const tune::Choice* own = found && *found && is_enough(context, **found) ? &**found : nullptr;
  if (own && !own->quick && take(context, problem, *own, Source::Database, decision)) return true;
  const auto with_us = tune::ShippedChoices::get().find(
      decision.key, tune::fingerprints(context.toolbox()->catalog()));
  const tune::Choice* shipped = with_us && is_enough(context, *with_us) ? &*with_us : nullptr;
  if (shipped && !shipped->quick && take(context, problem, *shipped, Source::Shipped, decision))
    return true;
  if (own && own->quick && take(context, problem, *own, Source::Database, decision)) return true;
  return shipped && shipped->quick && take(context, problem, *shipped, Source::Shipped, decision);
}

// Keeps the templates whose kernels the bundle has; all of them if it has none.
void prefer_built(const StepContext& context, const problem::Problem& problem,
                  launch::Candidates& fused) {
  if (!context.options().bundle || problem.kernel) return;
  const launch::Toolbox& toolbox = *context.toolbox();
  launch::Candidates built;
  for (size_t i = 0; i < fused.ranked.size(); ++i) {
    const Candidate& each = fused.ranked[i];
    if (!toolbox.has(launch::kernel_request(problem, *toolbox.catalog().find(each.kernel),
                                            *each.binding, toolbox.device().info().capability())))
      continue;
    built.ranked.push_back(each);
    built.expected.push_back(fused.expected[i]);
  }
  if (built.ranked.empty()) return;
  fused.ranked = std::move(built.ranked);
  fused.expected = std::move(built.expected);
}

bool is_among(const launch::Candidates& fused, const Candidate& candidate) {
  return std::any_of(fused.ranked.begin(), fused.ranked.end(),
                     [&](const Candidate& each) { return each.kernel == candidate.kernel; });
}

bool was_timed(const std::vector<tune::Trial>& trials, const Candidate& candidate) {
  return std::any_of(trials.begin(), trials.end(), [&](const tune::Trial& trial) {
    return trial.candidate == candidate && trial.seconds.has_value();
  });
}

// `fused`: the ways to fuse; a batch-invariant problem has no others. `modelled`: what is chosen if
// nothing is measured.
Status measure(const StepContext& context, const fuse::Region& region,
               const problem::Problem& problem, const launch::Candidates& fused, Candidate modelled,
               Decision& decision) {
  ATTACCA_TRY(problem::ProblemText text,
              problem::write_problem(context.graph(), region, context.symbols, context.mode(),
                                     context.alignment_of));
  text.batch_invariant = problem.batch_invariant;
  tune::TuneOptions options = context.options().tune_options;
  // The other tunings have looked for a known choice before, in vain.
  Decision known = decision;
  if (!asks_what_is_known(context.options().tuning) && decide_by_known(context, problem, known) &&
      (!problem.batch_invariant || is_among(fused, known.candidate)))
    options.before = std::move(known.candidate);
  options.modelled = std::move(modelled);
  ATTACCA_TRY(tune::Tuned tuned, tune::tune(context.toolbox(), text, options));
  // A thorough choice that was timed again beside the quick candidates stays one.
  if (options.before && !known.quick && was_timed(tuned.trials, *options.before))
    tuned.choice.quick = false;
  // What a choice among some templates is worth among all was not seen.
  if (!options.filter.takes_all()) tuned.choice.quick = true;
  decision.candidate = tuned.choice.candidate;
  decision.seconds = tuned.choice.seconds;
  decision.unfused_seconds = tuned.choice.unfused_seconds;
  decision.quick = tuned.choice.quick;
  decision.modelled = std::move(options.modelled);
  decision.source = Source::Measured;
  decision.trials = std::move(tuned.trials);
  decision.excluded = std::move(tuned.excluded);
  // If the database cannot be written, the next process measures again; this one goes on.
  const Status stored = tune::Database::open().and_then(
      [&](tune::Database&& database) { return database.store(decision.key, tuned.choice); });
  if (!stored) {
    decision.not_stored = stored.error().what;
    warn(stored.error());
  }
  return {};
}

std::string not_measured(const Status& measured) {
  return fmt::format("not measured: {}", measured.error().what);
}

// The tail joins a user's kernel where it may, unless that was measured to be slower or, where
// nothing was measured, there is a doubt.
Status decide_kernel(const StepContext& context, const fuse::Region& region,
                     const problem::Problem& problem, Decision& decision) {
  ATTACCA_TRY(launch::Candidates fused, tune::ways_to_fuse(context.toolbox(), problem,
                                                           context.options().tune_options.filter));
  decision.source = Source::Analysis;
  decision.excluded = std::move(fused.excluded);
  if (fused.ranked.empty()) return {};
  if (asks_what_is_known(context.options().tuning) && decide_by_known(context, problem, decision))
    return {};
  if (measures(context.options().tuning)) {
    const Status measured =
        measure(context, region, problem, fused,
                fused.doubt.empty() ? fused.ranked.front() : Candidate{}, decision);
    if (measured) return {};
    // A kernel may fail on made-up data.
    decision.remark = not_measured(measured);
  }
  if (fused.doubt.empty())
    decision.candidate = std::move(fused.ranked.front());
  else
    decision.excluded.push_back({std::string(launch::kUserKernel), std::move(fused.doubt)});
  return {};
}

// What of the unfused path is expected to be the fastest, if anything.
std::optional<tune::Estimated> best_unfused(const StepContext& context,
                                            const problem::Problem& problem) {
  if (!context.toolbox()->vendor()) return std::nullopt;
  for (tune::Estimated& unfused :
       tune::estimated_unfused(problem, context.toolbox()->device().info()))
    if (is_at_hand(context, problem, unfused.candidate)) return std::move(unfused);
  return std::nullopt;
}

// Makes the vendor library's proposal that is expected to be the fastest the decision of an unfused
// path.
void choose_proposal(const StepContext& context, const problem::Problem& problem,
                     Decision& decision) {
  if (problem.products[0].k == 0) return;
  const auto proposals = launch::unfused_proposals(context.toolbox(), problem);
  if (!proposals) return;
  Candidate chosen =
      tune::best_proposal(problem, *proposals, context.toolbox()->device().info()).candidate;
  if (is_at_hand(context, problem, chosen)) decision.candidate = std::move(chosen);
}

// Takes the first of the fused candidates, or the unfused path if it is expected to be faster.
void decide_by_model(const StepContext& context, const problem::Problem& problem,
                     const launch::Candidates& fused, Decision& decision) {
  decision.candidate = fused.ranked.front();
  decision.expected_seconds = decision.expected_fused_seconds = fused.expected.front();
  std::optional<tune::Estimated> unfused = best_unfused(context, problem);
  if (!unfused) return;
  decision.expected_unfused_seconds = unfused->seconds;
  if (!tune::prefers_unfused(fused, *unfused, context.toolbox()->device().info())) return;
  decision.candidate = std::move(unfused->candidate);
  decision.expected_seconds = unfused->seconds;
  choose_proposal(context, problem, decision);
}

Candidate modelled(const StepContext& context, const problem::Problem& problem,
                   const launch::Candidates& fused) {
  Decision decision;
  if (!fused.ranked.empty()) decide_by_model(context, problem, fused, decision);
  return std::move(decision.candidate);
}

// Whether a quick tuning would measure in vain.
bool is_in_vain(const StepContext& context, const problem::Problem& problem,
                const launch::Candidates& fused) {
  if (context.options().tuning != Tuning::Measure || !context.options().tune_options.quick)
    return false;
  const std::optional<tune::Estimated> unfused = best_unfused(context, problem);
  return unfused && !tune::may_gain(problem, fused, *unfused, context.toolbox()->device().info());
}

// Templates are the only kernels. The model chooses the order of sums, the same in every process;
// which of the templates of this order computes a problem may be measured, since all give the same
// bits. A known choice must be among them.
Status decide_invariant(const StepContext& context, const fuse::Region& region,
                        const problem::Problem& problem, Decision& decision) {
  ATTACCA_TRY(launch::Candidates fused, tune::ways_to_fuse(context.toolbox(), problem,
                                                           context.options().tune_options.filter));
  Decision known = decision;
  if (context.options().tuning != Tuning::Always && decide_by_known(context, problem, known) &&
      is_among(fused, known.candidate)) {
    decision = std::move(known);
    return {};
  }
  if (measures(context.options().tuning) && !fused.ranked.empty()) {
    const Status measured =
        measure(context, region, problem, fused, fused.ranked.front(), decision);
    if (measured || context.options().tuning == Tuning::Always) return measured;
    decision.remark = not_measured(measured);
  }
  prefer_built(context, problem, fused);
  decision.source = fused.ranked.empty() ? Source::OnlyWay : Source::Model;
  if (!fused.ranked.empty()) {
    decision.candidate = std::move(fused.ranked.front());
    decision.expected_seconds = decision.expected_fused_seconds = fused.expected.front();
  }
  decision.excluded = std::move(fused.excluded);
  decision.excluded.push_back({"unfused", std::string(launch::kVariantVendor)});
  return {};
}

Status decide_into(const StepContext& context, const fuse::Region& region,
                   const problem::Problem& problem, Decision& decision) {
  const bool is_pointwise = problem.products.empty() && !problem.kernel;
  if (context.options().tuning == Tuning::Unfused || is_pointwise || problem.empty()) {
    decision.source = Source::OnlyWay;
    return {};
  }
  decision.key =
      tune::choice_key(problem, context.toolbox()->device().info(), context.toolbox()->identity());
  if (decide_by_bundle(context, problem, decision)) return {};
  if (problem.kernel) return decide_kernel(context, region, problem, decision);
  if (problem.batch_invariant) return decide_invariant(context, region, problem, decision);
  if (asks_what_is_known(context.options().tuning) && decide_by_known(context, problem, decision))
    return {};
  ATTACCA_TRY(launch::Candidates fused, tune::ways_to_fuse(context.toolbox(), problem,
                                                           context.options().tune_options.filter));
  if (measures(context.options().tuning) && !is_in_vain(context, problem, fused)) {
    const Status measured =
        measure(context, region, problem, fused, modelled(context, problem, fused), decision);
    // `Always` reports a failed measurement. Otherwise a plan is made without it.
    if (measured || context.options().tuning == Tuning::Always) return measured;
    decision.remark = not_measured(measured);
  }
  prefer_built(context, problem, fused);
  decision.source = fused.ranked.empty() ? Source::OnlyWay : Source::Model;
  if (!fused.ranked.empty()) decide_by_model(context, problem, fused, decision);
  decision.excluded = std::move(fused.excluded);
  return {};
}

}  // namespace

Result<Decision> decide(const StepContext& context, const fuse::Region& region,
                        const problem::Problem& problem) {
  Decision decision;
  decision.region = {context.shared.prepared.partition, &region};
  ATTACCA_TRY_VOID(decide_into(context, region, problem, decision));
  decision.gathers_before =
      launch::gathers_before(problem, decision.candidate, context.toolbox()->catalog());
  decision.widens_before =
      launch::widens_before(problem, decision.candidate, context.toolbox()->catalog());
  return decision;
}

}  // namespace attacca::run
