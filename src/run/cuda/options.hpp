// What a caller may choose of a plan on a GPU.
#pragma once

#include <memory>
#include <vector>

#include "ir/graph/dim.hpp"
#include "launch/bundle.hpp"
#include "run/cuda/tuning.hpp"
#include "tune/choice.hpp"
#include "tune/options.hpp"

namespace attacca::run {

// What was found best elsewhere, such as by the process that saved a plan.
struct KnownChoice {
  tune::ChoiceKey key;
  tune::Choice choice;
};

// A plan's kernels as they were compiled before, and what they were chosen for.
struct Bundle {
  launch::Bundle kernels;
  std::vector<KnownChoice> choices;     // hold for their problem and shape, whatever the tools
  std::vector<ir::SymbolValues> sizes;  // for which it has all kernels
};

struct CudaOptions {
  Tuning tuning = Tuning::Known;
  tune::TuneOptions tune_options = {};
  std::vector<KnownChoice> choices = {};  // asked before the tuning database
  // Taken where it fits the device. Where it does not, kernels are compiled, with a warning, or,
  // without the compilers, the plan is refused.
  std::shared_ptr<const Bundle> bundle = {};
};

}  // namespace attacca::run
