#include <cstdlib>
#include <filesystem>

#include "fmt/format.h"

#include "cli/commands.hpp"
#include "cli/version.hpp"
#include "run/machine.hpp"
#include "support/memory.hpp"
#include "support/paths.hpp"

namespace attacca::cli {
namespace {

bool on_path(const std::string& program) {
  const char* path = std::getenv("PATH");
  std::string rest = path ? path : "";
  while (!rest.empty()) {
    const size_t colon = rest.find(':');
    std::error_code error;
    if (std::filesystem::exists(rest.substr(0, colon) + "/" + program, error)) return true;
    rest = colon == std::string::npos ? "" : rest.substr(colon + 1);
  }
  return false;
}

}  // namespace

int doctor() {
  const run::Machine machine = run::describe_machine();
  fmt::print("attacca    {}\n", kVersion);
  fmt::print("cpu        {}, {} cores, {}\n", machine.cpu_model, machine.cores, machine.simd);
  fmt::print("memory     {:.1f} GiB\n", static_cast<double>(physical_memory()) / (1 << 30));
  fmt::print("libraries  {}\n", fmt::join(machine.libraries, ", "));
  fmt::print("cache      {}\n", cache_directory());
  fmt::print("dot        {}\n", on_path("dot") ? "found, explain --svg works"
                                               : "not found: install graphviz for explain --svg");
  fmt::print("devices    cpu\n");
  return kOk;
}

}  // namespace attacca::cli
