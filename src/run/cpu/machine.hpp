// What this machine offers: for `attacca doctor`, benchmark tables and bug reports.
#pragma once

#include <string>
#include <vector>

namespace attacca::run {

struct Machine {
  std::string cpu_model;
  int cores = 0;
  std::string simd;                    // the best instruction set that the SIMD kernels use
  std::vector<std::string> libraries;  // "oneDNN 2.6.3"
};

Machine describe_machine();

}  // namespace attacca::run
