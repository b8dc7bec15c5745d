#include "tune/rounds.hpp"

#include <algorithm>
#include <limits>
#include <tuple>

#include "fmt/format.h"

namespace attacca::tune {
namespace {

// kTie and kSettings: of the pairs that cost at most 0.25 % of speed on average, one by which
// processes choose alike most often (tests/tune/alike_test.cpp).
// Each factor is of the fastest candidate's time.
constexpr double kTie = 1.0175;      // candidates within it tie
constexpr double kSettings = 1.015;  // times of other settings of one kernel count this much longer
constexpr double kKept = 1.025;      // an earlier choice within it is kept
constexpr double kUnsure = 0.004;    // so near to kTie chance decides: more rounds are timed
constexpr double kNear = 1.03;       // candidates within it may tie in the next round
constexpr double kClose = 1.06;      // candidates within it may win under load, at other clocks
constexpr size_t kNearOfAKind = 6;   // trials of each kind that run again
constexpr size_t kContendersOfAKind = 3, kNearContenders = 10;
constexpr size_t kMostUnsure = 6;
constexpr int kFirstRounds = 3, kLastRounds = 21;
constexpr int kCloseRounds = 15, kCloseProcesses = 3;  // rounds of each of so many processes

bool is_unfused(const launch::Candidate& candidate) {
  return candidate.kind == launch::CandidateKind::Unfused;
}

auto settings(const launch::Candidate& candidate) {
  return std::tie(candidate.splits, candidate.raster, candidate.swizzle);
}

bool is_default(const launch::Candidate& candidate) {
  return settings(candidate) == settings(launch::Candidate{});
}

bool contains(const std::vector<launch::Candidate>& list, const launch::Candidate& candidate) {
  return std::find(list.begin(), list.end(), candidate) != list.end();
}

// The trials that can be compared with each other, the fastest first.
std::vector<const Trial*> comparable(const std::vector<Trial>& trials) {
  std::vector<const Trial*> timed;
  const bool any_final =
      std::any_of(trials.begin(), trials.end(), [](const Trial& trial) { return trial.final; });
  for (const Trial& trial : trials)
    if (trial.seconds && (trial.final || !any_final)) timed.push_back(&trial);
  std::stable_sort(timed.begin(), timed.end(),
                   [](const Trial* a, const Trial* b) { return *a->seconds < *b->seconds; });
  return timed;
}

// What the trial's seconds count as beside others': those of other settings, whose gain is mostly
// chance, somewhat more.
double counted(const Trial& trial) {
  return *trial.seconds * (is_default(trial.candidate) ? 1 : kSettings);
}

double least_counted(const std::vector<const Trial*>& timed) {
  double least = std::numeric_limits<double>::infinity();
  for (const Trial* trial : timed) least = std::min(least, counted(*trial));
  return least;
}

const Trial* fastest_unfused(const std::vector<const Trial*>& timed) {
  const auto found = std::find_if(timed.begin(), timed.end(),
                                  [](const Trial* trial) { return is_unfused(trial->candidate); });
  return found == timed.end() ? nullptr : *found;
}

// Of the trials that count at most so long, the first in the order of ties; null: none.
const Trial* first_within(const std::vector<const Trial*>& timed, double seconds,
                          const TieOrder& order) {
  const Trial* chosen = nullptr;
  for (const Trial* trial : timed)
    if (counted(*trial) <= seconds &&
        (chosen == nullptr || order.first(trial->candidate, chosen->candidate)))
      chosen = trial;
  return chosen;
}

// The trial of the earlier choice, if it is kept; else null.
const Trial* kept(const std::vector<const Trial*>& timed, const TieOrder& order) {
  const Trial* unfused = fastest_unfused(timed);
  for (const Trial* trial : timed)
    if (order.before() == trial->candidate && *trial->seconds <= kKept * *timed[0]->seconds &&
        (unfused == nullptr || is_unfused(trial->candidate) ||
         *trial->seconds <= *unfused->seconds))
      return trial;
  return nullptr;
}

// The trials of one process with the means of all processes that timed them.
std::vector<Trial> mean_trials(const std::vector<std::vector<Trial>>& processes) {
  std::vector<Trial> mean = processes.front();
  for (size_t i = 0; i < mean.size(); ++i) {
    double sum = 0;
    int count = 0;
    for (const std::vector<Trial>& each : processes)
      if (each[i].seconds) sum += *each[i].seconds, ++count;
    if (count > 0) mean[i].seconds = sum / count, mean[i].failure.clear();
  }
  return mean;
}

}  // namespace

void add_once(std::vector<launch::Candidate>& list, const launch::Candidate& candidate) {
  if (!contains(list, candidate)) list.push_back(candidate);
}

TieOrder::TieOrder(std::vector<launch::Candidate> ranked, std::optional<launch::Candidate> before)
    : ranked_(std::move(ranked)), before_(std::move(before)) {}

bool TieOrder::first(const launch::Candidate& a, const launch::Candidate& b) const {
  const auto rank = [&](const launch::Candidate& candidate) {
    launch::Candidate base = candidate;
    base.splits = base.raster = base.swizzle = 0;
    return std::find(ranked_.begin(), ranked_.end(), base) - ranked_.begin();
  };
  const auto key = [&](const launch::Candidate& candidate) {
    return std::tuple(!is_unfused(candidate), !is_default(candidate), rank(candidate),
                      candidate.splits, candidate.raster, candidate.swizzle, to_string(candidate));
  };
  return key(a) < key(b);
}

void sort_by_time(std::vector<Trial>& trials) {
  static constexpr double kNever = std::numeric_limits<double>::infinity();
  std::stable_sort(trials.begin(), trials.end(), [](const Trial& a, const Trial& b) {
    return a.seconds.value_or(kNever) < b.seconds.value_or(kNever);
  });
}

std::vector<Trial> merge_rounds(std::vector<Trial> earlier, std::vector<Trial> last) {
  sort_by_time(last);
  if (last.empty() || !last[0].seconds) return earlier;
  for (Trial& trial : earlier) trial.final = false;
  for (Trial& trial : last) trial.final = trial.seconds.has_value();
  for (Trial& trial : earlier) {
    const auto same = std::find_if(last.begin(), last.end(), [&](const Trial& other) {
      return other.candidate == trial.candidate;
    });
    if (same == last.end())
      last.push_back(std::move(trial));
    else if (!same->seconds)
      *same = std::move(trial);
  }
  return last;
}

std::vector<launch::Candidate> finalists(const std::vector<Trial>& trials, const TieOrder& order,
                                         size_t fastest) {
  std::vector<launch::Candidate> chosen;
  const std::vector<const Trial*> timed = comparable(trials);
  for (const bool unfused : {true, false}) {
    std::vector<const Trial*> kind;
    for (const Trial* trial : timed)
      if (is_unfused(trial->candidate) == unfused) kind.push_back(trial);
    for (size_t i = 0; i < std::min(fastest, kind.size()); ++i)
      add_once(chosen, kind[i]->candidate);
    std::erase_if(kind, [near = kind.empty() ? 0 : kNear * *kind[0]->seconds](const Trial* trial) {
      return *trial->seconds > near;
    });
    std::stable_sort(kind.begin(), kind.end(), [&](const Trial* a, const Trial* b) {
      return order.first(a->candidate, b->candidate);
    });
    for (size_t i = 0; i < std::min(kNearOfAKind, kind.size()); ++i)
      add_once(chosen, kind[i]->candidate);
  }
  if (order.before()) add_once(chosen, *order.before());
  return chosen;
}

std::vector<launch::Candidate> contenders(const std::vector<Trial>& trials, const TieOrder& order) {
  std::vector<launch::Candidate> chosen;
  const std::vector<const Trial*> timed = comparable(trials);
  size_t fused = 0, unfused = 0;
  std::vector<const Trial*> near;
  const double least = least_counted(timed);
  for (const Trial* trial : timed) {
    size_t& same_kind = is_unfused(trial->candidate) ? unfused : fused;
    const bool may_win = *trial->seconds < kClose * *timed[0]->seconds;
    if (counted(*trial) < kNear * least) near.push_back(trial);
    if (same_kind >= (may_win ? kContendersOfAKind : 1)) continue;
    chosen.push_back(trial->candidate);
    ++same_kind;
  }
  std::stable_sort(near.begin(), near.end(), [&](const Trial* a, const Trial* b) {
    return order.first(a->candidate, b->candidate);
  });
  for (size_t i = 0; i < std::min(kNearContenders, near.size()); ++i)
    add_once(chosen, near[i]->candidate);
  for (const Trial* trial : timed)
    if (order.before() == trial->candidate) add_once(chosen, trial->candidate);
  return chosen;
}

std::vector<launch::Candidate> close_calls(const std::vector<Trial>& trials,
                                           const TieOrder& order) {
  const std::vector<const Trial*> timed = comparable(trials);
  if (timed.empty() || kept(timed, order) != nullptr) return {};
  const double least = least_counted(timed);
  const Trial* sure = first_within(timed, least * (kTie - kUnsure), order);
  std::vector<launch::Candidate> unsure;
  for (const Trial* trial : timed)
    if (unsure.size() < kMostUnsure && counted(*trial) > least * (kTie - kUnsure) &&
        counted(*trial) < least * (kTie + kUnsure) &&
        order.first(trial->candidate, sure->candidate))
      unsure.push_back(trial->candidate);
  if (unsure.empty()) return {};
  add_once(unsure, timed[0]->candidate);
  add_once(unsure, sure->candidate);
  if (const Trial* unfused = fastest_unfused(timed)) add_once(unsure, unfused->candidate);
  return unsure;
}

std::optional<Choice> choose(const std::vector<Trial>& trials, const TieOrder& order) {
  const std::vector<const Trial*> timed = comparable(trials);
  if (timed.empty()) return std::nullopt;
  const Trial* chosen = kept(timed, order);
  if (chosen == nullptr) chosen = first_within(timed, kTie * least_counted(timed), order);
  Choice choice{chosen->candidate, *chosen->seconds, 0};
  if (const Trial* unfused = fastest_unfused(timed)) choice.unfused_seconds = *unfused->seconds;
  return choice;
}

const Trial* next_fastest(const std::vector<Trial>& trials, const launch::Candidate& chosen) {
  for (const Trial* trial : comparable(trials))
    if (trial->candidate != chosen) return trial;
  return nullptr;
}

std::vector<Trial> time_in_rounds(const Stopwatch& stopwatch, std::vector<launch::Candidate> first,
                                  const TieOrder& order, const TuneOptions& options) {
  stopwatch.report(0, fmt::format("building and timing {} candidates", first.size()));
  std::vector<Trial> trials =
      stopwatch.time(std::move(first), options.quick ? options.rounds : kFirstRounds,
                     options.quick ? Pace::Sustained : Pace::Rested);
  sort_by_time(trials);
  if (options.quick || options.finalists == 0) return trials;
  const auto time_again = [&](std::vector<launch::Candidate> candidates, int rounds, Pace pace) {
    if (options.modelled) add_once(candidates, *options.modelled);
    trials = merge_rounds(std::move(trials), stopwatch.time(std::move(candidates), rounds, pace));
  };
  const auto fastest = static_cast<size_t>(options.finalists);
  std::vector<launch::Candidate> again = finalists(trials, order, fastest);
  size_t fused = 0;
  for (const Trial& trial : trials)
    if (trial.seconds && !is_unfused(trial.candidate) && fused++ < fastest)
      for (const launch::Candidate& variant : stopwatch.variants(trial.candidate))
        add_once(again, variant);
  stopwatch.report(0.6, fmt::format("timing {} of the best", again.size()));
  time_again(std::move(again), options.rounds, Pace::Rested);
  again = contenders(trials, order);
  if (again.size() < 2) return trials;
  stopwatch.report(0.9, fmt::format("timing the best {} under load", again.size()));
  time_again(std::move(again), kLastRounds, Pace::Sustained);
  again = close_calls(trials, order);
  if (again.empty()) return trials;
  if (options.modelled) add_once(again, *options.modelled);
  stopwatch.report(0.95, fmt::format("timing {} that nearly tie", again.size()));
  std::vector<std::vector<Trial>> processes;
  while (processes.size() < kCloseProcesses) {
    if (!processes.empty()) stopwatch.change_worker();
    processes.push_back(stopwatch.time(again, kCloseRounds, Pace::Sustained));
  }
  return merge_rounds(std::move(trials), mean_trials(processes));
}

}  // namespace attacca::tune
