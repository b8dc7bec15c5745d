// Measures the ways to compute a problem, in a child process, and finds the fastest.
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
  // Those of the last comparison, best first, failed ones last; then those of earlier rounds only.
  std::vector<Trial> trials;
  std::vector<launch::Exclusion> excluded;  // never timed, with the reason
  Choice choice;  // of those that tie with the fastest, the first in TieOrder (rounds.hpp)
};

// The fused candidates that the filter leaves, ranked: the templates', or a user's kernel with its
// tail. Errors: a user's kernel that cannot be read.
Result<launch::Candidates> ways_to_fuse(const std::shared_ptr<launch::Toolbox>& toolbox,
                                        const problem::Problem& problem,
                                        const TemplateFilter& filter);

// Times every candidate of the region in child processes; the winner is measured against the best
// unfused path in the same turns, but for batch-invariant problems, which do without it. Errors: no
// device, nothing ran at all.
Result<Tuned> tune(const std::shared_ptr<launch::Toolbox>& toolbox,
                   const problem::ProblemText& problem, const TuneOptions& options = {});

// The same for problems that one launch may compute together (launch/together.hpp). `apart`: how
// each would be computed by a launch of its own; `candidates`: of the launch for all. The choice is
// the unfused path, which stands for the launches apart, unless a candidate is faster by more than
// noise.
Result<Tuned> tune_together(const std::shared_ptr<launch::Toolbox>& toolbox,
                            const std::vector<problem::ProblemText>& problems,
                            const std::vector<launch::Candidate>& apart,
                            std::vector<launch::Candidate> candidates,
                            const TuneOptions& options = {});

// The best unfused path's seconds, in a child process too.
Result<double> time_unfused(const std::shared_ptr<launch::Toolbox>& toolbox,
                            const problem::ProblemText& problem, const TuneOptions& options = {});

// The program that times: $ATTACCA_TUNE_WORKER, else this program if it is `attacca`, else the
// attacca of the library's installation, beside this program, or of the system. Empty: none.
std::string worker_program();

}  // namespace attacca::tune
