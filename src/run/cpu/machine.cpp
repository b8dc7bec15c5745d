#include "run/cpu/machine.hpp"

#include <fstream>
#include <thread>

#include "fmt/core.h"
#include "hwy/highway.h"
#include "oneapi/dnnl/dnnl.h"

namespace attacca::run {
namespace {

std::string read_cpu_model() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.rfind("model name", 0) == 0) return line.substr(line.find(':') + 2);
  return "unknown";
}

// Highway's targets are bits, the best the lowest.
std::string best_simd() {
  const int64_t supported = hwy::SupportedTargets();
  return hwy::TargetName(supported & -supported);
}

}  // namespace

Machine describe_machine() {
  const dnnl_version_t* dnnl = dnnl_version();
  return {
      .cpu_model = read_cpu_model(),
      .cores = static_cast<int>(std::thread::hardware_concurrency()),
      .simd = best_simd(),
      .libraries = {fmt::format("oneDNN {}.{}.{}", dnnl->major, dnnl->minor, dnnl->patch),
                    fmt::format("Highway {}.{}.{}", HWY_MAJOR, HWY_MINOR, HWY_PATCH),
                    fmt::format("fmt {}.{}.{}", FMT_VERSION / 10000, FMT_VERSION / 100 % 100,
                                FMT_VERSION % 100)},
  };
}

}  // namespace attacca::run
