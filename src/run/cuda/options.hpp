// The options of a plan on a GPU.
#pragma once

#include <memory>
#include <vector>

#include "ir/graph/dim.hpp"
#include "launch/bundle/bundle.hpp"
#include "run/cuda/tuning.hpp"
#include "tune/choice.hpp"
#include "tune/options.hpp"

namespace attacca::run {

// A choice that was made elsewhere, such as by the process that saved a plan.
struct KnownChoice {
  tune::ChoiceKey key;
  tune::Choice choice;
};

// A plan's kernels as they were compiled before, and what they were chosen for.
struct Bundle {
  launch::Bundle kernels;
  std::vector<KnownChoice> choices;     // used whatever the tools' versions are
  std::vector<ir::SymbolValues> sizes;  // for which it has all kernels
};

struct CudaOptions {
  Tuning tuning = Tuning::Known;
  tune::TuneOptions tune_options = {};
  std::vector<KnownChoice> choices = {};  // asked before the tuning database
  // Used if it fits the device. If not, kernels are compiled, with a warning; without compilers the
  // plan is refused.
  std::shared_ptr<const Bundle> bundle = {};
};

}  // namespace attacca::run
