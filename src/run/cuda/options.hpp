// What a caller may choose of a plan on a GPU.
#pragma once

#include <vector>

#include "run/cuda/tuning.hpp"
#include "tune/choice.hpp"
#include "tune/options.hpp"

namespace attacca::run {

// What was found best elsewhere, such as by the process that saved a plan.
struct KnownChoice {
  tune::ChoiceKey key;
  tune::Choice choice;
};

struct CudaOptions {
  Tuning tuning = Tuning::Known;
  tune::TuneOptions tune_options = {};
  std::vector<KnownChoice> choices = {};  // asked before the tuning database
};

}  // namespace attacca::run
