#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <unistd.h>

#include "fmt/format.h"

#include "cli/bench/problem.hpp"
#include "gpu/driver/device.hpp"
#include "support/text/json.hpp"

namespace attacca::cli {
namespace {

using Clock = std::chrono::steady_clock;

double milliseconds_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

// A temporary folder, removed with its contents.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::error_code error;
    const std::filesystem::path above = std::filesystem::temp_directory_path(error);
    std::string pattern = (above / "attacca-cold-XXXXXX").string();
    if (!error && mkdtemp(pattern.data()) != nullptr) path_ = pattern;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

struct Bench {
  std::optional<gpu::Device> device;  // nullopt: kernels are built, not loaded
  std::optional<templates::Catalog> catalog;
  std::string folder;

  Result<json::Value> load(const gpu::KernelRequest& request, gpu::Cache& cache) const;
  Result<json::Value> run(const std::string& kernel, const BenchGemmArgs& args) const;
};

// One build and, on a GPU, the loading of its result.
Result<json::Value> Bench::load(const gpu::KernelRequest& request, gpu::Cache& cache) const {
  const auto begin = Clock::now();
  ATTACCA_TRY(const gpu::Cubin cubin, gpu::build(request, cache));
  const double build = milliseconds_since(begin);
  const auto built = Clock::now();
  json::Value line = json::Value::object();
  if (device) {
    ATTACCA_TRY(const gpu::Module module, gpu::Module::load(*device, *cubin.bytes));
    ATTACCA_TRY_VOID(module.function(cubin.kernel));
    line.set("module_ms", milliseconds_since(built));
  }
  const gpu::CompileTimes& times = cubin.times;
  return line.set("emit_ms", times.emit * 1e3)
      .set("nvrtc_ms", times.nvrtc * 1e3)
      .set("splice_ms", times.splice * 1e3)
      .set("assemble_ms", times.assemble * 1e3)
      .set("cache_ms", times.load * 1e3)
      .set("build_ms", build)
      .set("total_ms", milliseconds_since(begin))
      .set("cached", times.cached)
      .set("bytes", cubin.bytes->size());
}

Result<json::Value> Bench::run(const std::string& kernel, const BenchGemmArgs& args) const {
  ATTACCA_TRY(const Placed placed,
              place_in(*catalog, kernel, args, device ? &device->info() : nullptr));
  json::Value line = json::Value::object().set("template", kernel).set("epilogue", args.epilogue);
  gpu::CacheOptions options;
  options.folder = folder;
  gpu::Cache first(options), second(options);
  // First with a folder that lacks the kernel, then as another process that finds it, then as this
  // process again.
  ATTACCA_TRY(json::Value cold, load(placed.request, first));
  ATTACCA_TRY(json::Value disk, load(placed.request, second));
  ATTACCA_TRY(json::Value memory, load(placed.request, second));
  return line.set("first", std::move(cold))
      .set("disk", std::move(disk))
      .set("memory", std::move(memory));
}

Result<int> try_cold(const BenchKernelArgs& args) {
  ATTACCA_TRY(const int number, bench_gpu(args.gemm));
  Bench bench;
  if (auto device = gpu::Device::open(number)) bench.device = *std::move(device);
  const auto begin = Clock::now();
  ATTACCA_TRY(bench.catalog, templates::Catalog::open(
                                 bench.device ? bench.device->driver().encode_tiled() : nullptr));
  const double open = milliseconds_since(begin);
  const auto opened = Clock::now();
  ATTACCA_TRY(const std::string tools, gpu::Toolchain().versions());
  const double open_tools = milliseconds_since(opened);
  fmt::print("{}\n", json::dump(json::Value::object()
                                    .set("device", bench.device ? bench.device->info().name : "")
                                    .set("tools", tools)
                                    .set("catalog_ms", open)
                                    .set("tools_ms", open_tools),
                                -1));
  TemporaryFolder temporary;
  bench.folder = args.cache.empty() ? temporary.path() : args.cache;
  BenchGemmArgs one = args.gemm;
  for (const std::string& text : args.epilogues)
    for (const std::string& kernel : template_names(*bench.catalog, args.templates)) {
      one.epilogue = text;
      auto line = bench.run(kernel, one);
      if (!line)
        line = json::Value::object()
                   .set("template", kernel)
                   .set("epilogue", text)
                   .set("failed", line.error().what);
      fmt::print("{}\n", json::dump(*line, -1));
    }
  return kOk;
}

}  // namespace

int bench_cold(const BenchKernelArgs& args) {
  return exit_code(try_cold(args));
}

}  // namespace attacca::cli
