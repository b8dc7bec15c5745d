// The problems of a graph, which any process with a GPU of the same kind can tune.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "launch/toolbox.hpp"
#include "problem/region_graph.hpp"
#include "run/cuda/decision.hpp"
#include "run/cuda/options.hpp"
#include "run/shared/target.hpp"

namespace attacca::run {

struct ListedProblem {
  size_t region = 0;           // its number, from 1
  std::string problem, shape;  // of tune::ChoiceKey; empty: there is only one way to compute it
  double operations = 0;
  problem::ProblemText text;
};

// One for each region that a decision is made for, for these sizes and operands that are aligned to
// 16 bytes. No kernel is built. REQUIRES: prepared for a device.
Result<std::vector<ListedProblem>> list_problems(const Prepared& prepared,
                                                 const ir::SymbolValues& sizes);

// Decides as a plan that has the problem among its regions does. Errors: a text that is not one
// problem, and those of decide().
Result<Decision> decide_problem(const std::shared_ptr<launch::Toolbox>& toolbox,
                                const problem::ProblemText& text, CudaOptions options);

}  // namespace attacca::run
