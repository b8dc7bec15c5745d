// Which candidates a tuning tries, and how long it may take.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "launch/candidate.hpp"

namespace attacca::tune {

// The templates that may be taken, by shell patterns of their names (*, ?, [abc]). A user's kernel
// with its tail has the name kUserKernel.
struct TemplateFilter {
  std::vector<std::string> allow;  // empty: all
  std::vector<std::string> deny;
  bool takes_all() const { return allow.empty() && deny.empty(); }
};

struct TuneOptions {
  int most_templates = 40;     // timed in the first round; the others by rank are left out
  int most_algorithms = 1000;  // of the vendor library for each way to compute the problem unfused
  int finalists = 3;           // templates whose variants the second round times; 0: no such round
  int rounds = 7;              // each of those is timed
  double seconds_limit = 60;
  // One round alone, under load. The choice says so, and counts as known for quick tunings alone.
  bool quick = false;
  double silence_limit = 60;  // seconds without an answer of the timing process
  TemplateFilter filter = {};
  std::optional<launch::Candidate> before = {};  // what an earlier tuning chose (rounds.hpp)
  // What is chosen without measuring. Timed in every round, so that its time and the fastest one's
  // compare; a quick tuning times it only if it is among its candidates.
  std::optional<launch::Candidate> modelled = {};
  // Called before each step with its description; 0 <= done <= 1.
  std::function<void(double done, const std::string& what)> progress;
};

// The options of a tuning that may take so long. Up to 5 seconds it is quick: the best by the model
// alone are timed, and what may_gain() (candidates.hpp) denies is not.
inline TuneOptions options_within(double seconds) {
  TuneOptions options;
  options.seconds_limit = seconds;
  if (seconds > 5) return options;
  options.quick = true;
  options.most_templates = 4;
  options.most_algorithms = 2;
  return options;
}

}  // namespace attacca::tune
