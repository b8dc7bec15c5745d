#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <unistd.h>

#include "fmt/format.h"

#include "cli/commands.hpp"
#include "cli/version.hpp"
#include "gpu/cache/cache.hpp"
#include "gpu/compile/assemble.hpp"
#include "gpu/compile/compile.hpp"
#include "gpu/driver/device.hpp"
#include "launch/toolbox.hpp"
#include "run/cpu/machine.hpp"
#include "support/environment.hpp"
#include "support/files/paths.hpp"
#include "support/files/private_folder.hpp"
#include "support/memory.hpp"
#include "support/text/escaped.hpp"
#include "templates/catalog.hpp"
#include "tune/database.hpp"
#include "tune/model/age.hpp"
#include "tune/shipped.hpp"

namespace attacca::cli {
namespace {

bool on_path(const std::string& program) {
  std::string rest = environment("PATH");
  while (!rest.empty()) {
    const size_t colon = rest.find(':');
    std::error_code error;
    if (std::filesystem::exists(rest.substr(0, colon) + "/" + program, error)) return true;
    rest = colon == std::string::npos ? "" : rest.substr(colon + 1);
  }
  return false;
}

std::string tool(const Result<gpu::ToolDescription>& found) {
  if (!found) return fmt::format("{}; {}", found.error().what, found.error().fix);
  return found->path.empty() ? found->version : fmt::format("{} ({})", found->version, found->path);
}

Result<gpu::ToolDescription> describe_driver() {
  ATTACCA_TRY(const gpu::Driver* driver, gpu::Driver::get());
  return gpu::ToolDescription{
      fmt::format("CUDA {}.{}", driver->version() / 1000, driver->version() % 1000 / 10),
      driver->path()};
}

Result<gpu::ToolDescription> describe_assembler() {
  ATTACCA_TRY(const gpu::AssemblerDescription assembler, gpu::describe_assembler());
  return assembler.tool;
}

// What to install if the assembler found makes slower kernels (gpu/compile/assemble.hpp).
std::string_view better_assembler() {
  const auto found = gpu::describe_assembler();
  if (!found || found->kind == gpu::Assembler::Ptxas) return "";
  return "; install ptxas (nvidia-cuda-nvcc from PyPI), whose kernels for sm_90a are faster";
}

Result<gpu::ToolDescription> describe_cublaslt() {
  ATTACCA_TRY(const gpu::Library library, gpu::Library::open(gpu::kCublasLtLibrary));
  size_t (*version)() = nullptr;
  ATTACCA_TRY_VOID(library.resolve({{"cublasLtGetVersion", version}}));
  const size_t number = version();  // 130002: 13.0.2
  return gpu::ToolDescription{
      fmt::format("cuBLASLt {}.{}.{}", number / 10000, number / 100 % 100, number % 100),
      library.path()};
}

Result<std::string> describe_device(int ordinal) {
  ATTACCA_TRY(const gpu::Device device, gpu::Device::open(ordinal));
  const gpu::DeviceInfo& info = device.info();
  return fmt::format("{}, {}, {} SMs, {:.1f} GiB", info.name, gpu::plain_arch(info.capability()),
                     info.sm_count, static_cast<double>(info.memory_bytes) / (1 << 30));
}

void print_devices() {
  fmt::print("devices    cpu\n");
  const int count = gpu::Device::count().value_or(0);
  for (int i = 0; i < count; ++i) {
    const auto device = describe_device(i);
    fmt::print("           cuda:{} {}\n", i, device ? *device : device.error().what);
  }
}

std::string describe_templates() {
  const std::string directory = templates::Catalog::default_directory();
  const auto catalog = templates::Catalog::open(nullptr, directory);
  if (!catalog) return fmt::format("{}; {}", catalog.error().what, catalog.error().fix);
  std::string text = fmt::format("{} in {}{}", catalog->templates().size(), directory,
                                 catalog->indexed() ? "" : " (without index: see `attacca index`)");
  for (const templates::LeftOut& each : catalog->left_out())
    text += fmt::format("\n           left out: {} ({}; {})", escaped(each.name), each.reason.what,
                        each.reason.fix);
  return text;
}

// Whether the cache's directory can be used.
std::string cache_state(const std::string& directory) {
  if (const auto limit = gpu::CacheOptions::limit_from_environment(); !limit)
    return fmt::format("{} ({}: {}; {})", directory, limit.error().where, limit.error().what,
                       limit.error().fix);
  PrivateFolder folder;
  const int error = folder.open(directory);
  if (error == ENOENT) return directory + " (not made yet)";
  if (error == kNotPrivate)
    return fmt::format("{} (not used: {}; chmod go-w it, and let it be yours or root's)", directory,
                       error_text(error));
  if (error != 0) return fmt::format("{} (not used: {})", directory, error_text(error));
  if (access(directory.c_str(), W_OK) != 0)
    return fmt::format(
        "{} (read, and nothing is kept there: {}; set ATTACCA_CACHE_DIR to a folder "
        "that can be written to keep more)",
        directory, error_text(errno));
  return directory;
}

std::string tuned_state() {
  const std::string path = tune::Database::default_path();
  std::error_code none;
  if (!std::filesystem::exists(path, none)) return "nothing measured yet";
  auto database = tune::Database::open(path);
  const auto count = database ? database->size()
                              : Result<int64_t>(tl::make_unexpected(std::move(database).error()));
  if (!count) return fmt::format("{}; {}", count.error().what, count.error().fix);
  return fmt::format("{} measured in {}", *count, path);
}

// "412 choices for NVIDIA H200 in FILE, 398 hold here; 14: their templates have changed", one line
// for each file that came with Attacca.
std::string shipped_state() {
  const tune::ShippedChoices& shipped = tune::ShippedChoices::get();
  const auto toolbox = launch::Toolbox::open();
  const auto fits =
      toolbox ? shipped.fits((*toolbox)->identity(), tune::fingerprints((*toolbox)->catalog()))
              : shipped.fits("", [](const std::string&) { return ""; });
  std::vector<std::string> lines;
  for (const tune::ShippedChoices::Fit& fit : fits) {
    std::string& line = lines.emplace_back(fmt::format("{} choices for {} in {}", fit.choices,
                                                       escaped(fit.device), escaped(fit.path)));
    if (!toolbox || (*toolbox)->device().info().name != fit.device) {
      line += ", no such device here";
      continue;
    }
    line += fmt::format(", {} hold here", fit.fitting);
    for (const auto& [why, count] : fit.others) line += fmt::format("; {}: {}", count, why);
  }
  for (const Error& error : shipped.left_out())
    lines.push_back(fmt::format("{} ({}; {})", error.what, escaped(error.where), error.fix));
  return lines.empty() ? fmt::format("no choices in {}", tune::ShippedChoices::default_directory())
                       : fmt::format("{}", fmt::join(lines, "\n           "));
}

// "learned from 958 problems (NVIDIA H200, 2026-11-23); stale: 2 templates are new or changed
// since: ...".
std::string ranking_state() {
  const auto catalog = templates::Catalog::open(nullptr);
  if (!catalog) return "no templates";
  const tune::RankingAge age = tune::ranking_age(*catalog);
  std::string text = fmt::format("learned from {} problems ({})", age.problems, age.measured);
  if (age.changed.empty()) return text + ", of these templates";
  constexpr size_t kNamed = 3;
  const size_t named = std::min(age.changed.size(), kNamed);
  return text + fmt::format(
                    "; stale: {} templates are new or changed since ({}{}); "
                    "run bench/gpu/ranking.py",
                    age.changed.size(),
                    fmt::join(age.changed.begin(), age.changed.begin() + ptrdiff_t(named), ", "),
                    named < age.changed.size() ? ", ..." : "");
}

// "CUDA_HOME=/usr/local/cuda", one line for each variable that Attacca reads and that is set.
std::string settings() {
  std::vector<std::string> set;
  for (const EnvironmentVariable& variable : environment_variables())
    if (const std::string value = environment(variable.name); !value.empty())
      set.push_back(fmt::format("{}={}", variable.name, escaped(value)));
  return set.empty() ? "none of those that Attacca reads"
                     : fmt::format("{}", fmt::join(set, "\n           "));
}

}  // namespace

int doctor() {
  const run::Machine machine = run::describe_machine();
  fmt::print("attacca    {}\n", kVersion);
  fmt::print("cpu        {}, {} cores, {}\n", machine.cpu_model, machine.cores, machine.simd);
  fmt::print("memory     {:.1f} GiB\n", static_cast<double>(physical_memory()) / (1 << 30));
  fmt::print("libraries  {}\n", fmt::join(machine.libraries, ", "));
  fmt::print("cache      {}\n", cache_state(cache_directory()));
  fmt::print("tuned      {}\n", tuned_state());
  fmt::print("shipped    {}\n", shipped_state());
  fmt::print("dot        {}\n", on_path("dot") ? "found, explain --svg works"
                                               : "not found: install graphviz for explain --svg");
  fmt::print("driver     {}\n", tool(describe_driver()));
  fmt::print("compiler   {}\n", tool(gpu::describe_compiler()));
  fmt::print("assembler  {}{}\n", tool(describe_assembler()), better_assembler());
  fmt::print("cublas     {}\n", tool(describe_cublaslt()));
  fmt::print("templates  {}\n", describe_templates());
  fmt::print("ranking    {}\n", ranking_state());
  fmt::print("variables  {}\n", settings());
  print_devices();
  return kOk;
}

}  // namespace attacca::cli
