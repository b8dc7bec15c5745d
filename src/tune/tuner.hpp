// Finding the fastest way to compute a problem by measuring, in a child process.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "launch/toolbox.hpp"
#include "problem/region_graph.hpp"
#include "tune/choice.hpp"
#include "tune/options.hpp"

namespace attacca::tune {

struct Tuned {
  // The last comparison's, best first, its failed ones last; then what only earlier rounds saw.
  std::vector<Trial> trials;
  std::vector<launch::Exclusion> excluded;  // never timed, with the reason
  Choice choice;  // of those that tie with the fastest, the first in TieOrder (rounds.hpp)
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
