// What a tuning may try and how long it may take.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "launch/candidate.hpp"

namespace attacca::tune {

// Which templates, or a user's kernel with its tail as kUserKernel, may be taken, by patterns of
// their names as a shell's (*, ?, [abc]).
struct TemplateFilter {
  std::vector<std::string> allow;  // empty: all
  std::vector<std::string> deny;
};

struct TuneOptions {
  int most_templates = 40;  // timed in the first round; the others by rank are left out
  int finalists = 3;        // templates whose variants the second round times; 0: no such round
  int rounds = 7;           // each of those is timed
  double seconds_limit = 60;
  double silence_limit = 60;  // seconds without a word from the timing process: kernels are built
  TemplateFilter filter = {};
  std::optional<launch::Candidate> before = {};  // what an earlier tuning chose (rounds.hpp)
  // Called with what happens next, 0 <= done <= 1.
  std::function<void(double done, const std::string& what)> progress;
};

}  // namespace attacca::tune
