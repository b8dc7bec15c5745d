// Which candidates each round of a tuning times, and how the last one decides.
//
// Candidates within 1.75 % of the fastest tie, and the first of them in a fixed order is taken.
// Other than default settings of a template have to gain another 1.5 %: such gains are mostly
// chance. Tuning the same problem again with the same tools then gives the same choice, unless a
// time lies at the limit of the tie: candidates near it are timed for longer (close_calls()), by
// several processes, because each places the operands elsewhere in memory, which changes a
// candidate's time by more than the noise that is left after so many rounds.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tune/choice.hpp"
#include "tune/options.hpp"
#include "tune/pace.hpp"

namespace attacca::tune {

// The order in which ties are decided: the unfused path's candidates, so that a fused one is chosen
// only where it is faster; then templates with default settings; then with others. Each by the rank
// of its first member, then by its settings. Of unfused candidates that tie, the first by rank is
// taken, which may be up to 1.75 % slower than another of them.
class TieOrder {
 public:
  // `ranked`: the unfused candidates, then the templates' by rank. `before`: what an earlier tuning
  // chose, if anything; it is kept within 2.5 % of the fastest while it is not slower than the
  // unfused path.
  explicit TieOrder(std::vector<launch::Candidate> ranked,
                    std::optional<launch::Candidate> before = {});

  bool first(const launch::Candidate& a, const launch::Candidate& b) const;
  const std::optional<launch::Candidate>& before() const { return before_; }

 private:
  std::vector<launch::Candidate> ranked_;
  std::optional<launch::Candidate> before_;
};

// Adds it at the end, unless it is in the list.
void add_once(std::vector<launch::Candidate>& list, const launch::Candidate& candidate);

// Sorts: the fastest first, failed ones last.
void sort_by_time(std::vector<Trial>& trials);

// The trials of a later round, sorted and marked as final, then those of earlier rounds alone,
// whose times are of a device in another state. A round in which nothing ran changes nothing.
std::vector<Trial> merge_rounds(std::vector<Trial> earlier, std::vector<Trial> last);

// Of the sorted trials of a first round: the `fastest` of each kind, those near the fastest of
// their kind, in the order of ties, and the earlier choice.
std::vector<launch::Candidate> finalists(const std::vector<Trial>& trials, const TieOrder& order,
                                         size_t fastest);

// Of the final trials what may still be chosen under load: up to three fused candidates and up to
// three of the unfused path that come near the fastest, at least one of each; those that would win
// a tie with it; the earlier choice.
std::vector<launch::Candidate> contenders(const std::vector<Trial>& trials, const TieOrder& order);

// The final trials whose time is so near the limit of the tie that chance decides whether they are
// chosen, and those they are compared with. Empty: the choice is clear.
std::vector<launch::Candidate> close_calls(const std::vector<Trial>& trials, const TieOrder& order);

// By the final trials, or by all if none is: the first of those that tie, beside the fastest
// unfused one. None: nothing ran.
std::optional<Choice> choose(const std::vector<Trial>& trials, const TieOrder& order);

// The fastest final trial of another candidate than `chosen`. Null: there is none.
const Trial* next_fastest(const std::vector<Trial>& trials, const launch::Candidate& chosen);

// What the rounds need from their caller.
struct Stopwatch {
  std::function<std::vector<Trial>(std::vector<launch::Candidate>, int rounds, Pace)> time;
  std::function<void()> change_worker;  // what follows is timed by another process
  // A template's candidate with default settings, then with others.
  std::function<std::vector<launch::Candidate>(const launch::Candidate&)> variants;
  std::function<void(double done, const std::string& what)> report;
};
// Runs all rounds, from the candidates of the first. Returns the trials that choose() decides by.
std::vector<Trial> time_in_rounds(const Stopwatch& stopwatch, std::vector<launch::Candidate> first,
                                  const TieOrder& order, const TuneOptions& options);

}  // namespace attacca::tune
