#include "tune/rounds.hpp"

#include <algorithm>
#include <limits>

namespace attacca::tune {
namespace {

constexpr double kClose = 1.06;  // times the best
constexpr int kContendersOfAKind = 3;

}  // namespace

void sort_by_time(std::vector<Trial>& trials) {
  static constexpr double kNever = std::numeric_limits<double>::infinity();
  std::stable_sort(trials.begin(), trials.end(), [](const Trial& a, const Trial& b) {
    return a.seconds.value_or(kNever) < b.seconds.value_or(kNever);
  });
}

std::vector<Trial> merge_rounds(std::vector<Trial> earlier, std::vector<Trial> last) {
  sort_by_time(last);
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

std::vector<launch::Candidate> contenders(const std::vector<Trial>& trials) {
  std::vector<launch::Candidate> chosen;
  int fused = 0, unfused = 0;
  for (const Trial& trial : trials) {
    if (!trial.final) continue;
    int& same_kind = trial.candidate.kind == launch::CandidateKind::Unfused ? unfused : fused;
    const bool may_win = *trial.seconds < kClose * *trials[0].seconds;
    if (same_kind >= (may_win ? kContendersOfAKind : 1)) continue;
    chosen.push_back(trial.candidate);
    ++same_kind;
  }
  return chosen;
}

std::optional<Choice> choose(const std::vector<Trial>& trials) {
  std::optional<Choice> choice;
  double unfused = 0;
  for (const Trial& trial : trials) {
    if (!trial.seconds) continue;
    if (!choice) choice = Choice{trial.candidate, *trial.seconds, 0};
    if (unfused == 0 && trial.candidate.kind == launch::CandidateKind::Unfused)
      unfused = *trial.seconds;
  }
  if (choice) choice->unfused_seconds = unfused;
  return choice;
}

}  // namespace attacca::tune
