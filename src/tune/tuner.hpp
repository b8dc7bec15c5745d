// Finding the fastest way to compute a problem by measuring, in a child process.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launch/toolbox.hpp"
#include "tune/database.hpp"
#include "tune/timer.hpp"
#include "tune/worker.hpp"

namespace attacca::tune {

struct TuneOptions {
  int most_templates = 40;  // timed in the first round; the others by rank are left out
  int finalists = 3;        // templates whose variants the second round times; 0: no such round
  int rounds = 7;           // each of those is timed
  double seconds_limit = 60;
  double silence_limit = 60;  // seconds without a word from the timing process: kernels are built
  TemplateFilter filter = {};
  // Called with what happens next, 0 <= done <= 1.
  std::function<void(double done, const std::string& what)> progress;
};

struct Tuned {
  // The last comparison's, best first, its failed ones last; then what only earlier rounds saw.
  std::vector<Trial> trials;
  std::vector<launch::Exclusion> excluded;  // never timed, with the reason
  Choice choice;  // the best of all; unfused where fusing lost or nothing else ran
};

// The fused candidates, ranked, that the filter leaves: those of the templates, or of a user's
// kernel the one with its tail. Errors: a user's kernel that cannot be read.
Result<launch::Candidates> ways_to_fuse(const std::shared_ptr<launch::Toolbox>& toolbox,
                                        const problem::Problem& problem,
                                        const TemplateFilter& filter);

// Times every candidate of the region in child processes; the winner is measured against the best
// unfused path in the same turns. Errors: no device, nothing ran at all.
Result<Tuned> tune(const std::shared_ptr<launch::Toolbox>& toolbox,
                   const problem::ProblemText& problem, const TuneOptions& options = {});

// The best unfused path's seconds, in a child process too.
Result<double> time_unfused(const std::shared_ptr<launch::Toolbox>& toolbox,
                            const problem::ProblemText& problem, const TuneOptions& options = {});

// The program that serves timings: $ATTACCA_TUNE_WORKER, else this program where it is `attacca`,
// else attacca beside it or on the path of the library's installation. Empty where there is none.
std::string worker_program();

}  // namespace attacca::tune
