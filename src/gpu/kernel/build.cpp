#include "gpu/kernel/build.hpp"

#include <chrono>

#include "fmt/format.h"

#include "gpu/devices.hpp"
#include "gpu/kernel/sources.hpp"
#include "ptx/splice/several.hpp"
#include "ptx/splice/splice.hpp"
#include "support/check.hpp"
#include "support/files/file.hpp"
#include "support/hash.hpp"

namespace attacca::gpu {
namespace {

constexpr const char* kHole = "attacca_hole";

// The seconds since the last call, at first since its construction.
class Laps {
 public:
  double next() {
    const auto now = Clock::now();
    return std::chrono::duration<double>(now - std::exchange(last_, now)).count();
  }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point last_ = Clock::now();
};

std::string arch_for(const KernelRequest& request) {
  const std::string& own = request.kernel->arch;
  return request.capability == 0 ? own : gpu::machine_arch(own, request.capability);
}

Result<std::vector<char>> compile_and_splice(const KernelRequest& request,
                                             const Toolchain& toolchain, CompileTimes& times) {
  const bool eager = request.mode == ir::Mode::Eager;
  Laps laps;
  epilogue::CudaOptions options;
  options.mode = request.mode;
  options.function = kHole;
  options.includes = request.includes;
  const std::string source =
      epilogue::emit_cuda(request.epilogue, request.kernel->hole, request.binding, options);
  times.emit = laps.next();
  ATTACCA_TRY(std::string filling_ptx,
              toolchain.compile(source, {.arch = request.kernel->arch,
                                         .contract = !eager,
                                         .minimal = request.includes.empty()}));
  times.nvrtc = laps.next();
  ATTACCA_TRY(std::string kernel_ptx,
              templates::instantiate(*request.kernel, request.a_type, request.b_type));
  ATTACCA_TRY(const ptx::Module kernel, ptx::parse(std::move(kernel_ptx), request.kernel->path));
  ATTACCA_TRY(const ptx::Module filling, ptx::parse(std::move(filling_ptx), "the epilogue's PTX"));
  ATTACCA_TRY(ptx::Spliced spliced, ptx::splice(kernel, filling, kHole));
  if (request.problems > 1) {
    ATTACCA_TRY(const ptx::Module one, ptx::parse(std::move(spliced.ptx), request.kernel->path));
    ATTACCA_TRY(spliced.ptx, ptx::compute_several(one, request.kernel->kernel, request.problems,
                                                  request.has_signals));
  }
  times.splice = laps.next();
  ATTACCA_TRY(std::vector<char> image, toolchain.assemble(spliced.ptx, arch_for(request)));
  times.assemble = laps.next();
  return image;
}

}  // namespace

Result<std::string> cache_key(const KernelRequest& request, const Toolchain& toolchain) {
  ATTACCA_CHECK(request.kernel != nullptr, "a request without a template");
  ATTACCA_TRY(const std::string versions, toolchain.versions());
  ATTACCA_TRY(const std::string ptx, read_file(request.kernel->path));
  std::string key = fmt::format("sources {}\ntools {}\ntemplate {}\nptx {:016x}\n",
                                kernel_sources(), versions, request.kernel->name, hash64(ptx));
  key += fmt::format("input {} {}\narch {}\nmode {}\n", ir::name(request.a_type),
                     ir::name(request.b_type), arch_for(request), ir::name(request.mode));
  if (request.problems > 1) key += fmt::format("problems {}\n", request.problems);
  if (request.has_signals) key += "signals\n";
  for (const std::string& include : request.includes)
    key += fmt::format("include {} bytes {:016x}\n", include.size(), hash64(include));
  return key + fmt::format("binding {}\nin order\n{}", epilogue::serialize(request.binding),
                           serialize_in_order(request.epilogue));
}

Result<Cubin> build(const KernelRequest& request) {
  return build(request, Cache::shared());
}

Result<Cubin> build(const KernelRequest& request, Cache& cache, const Toolchain& toolchain) {
  Laps total;
  Cubin cubin;
  CompileTimes& times = cubin.times;
  ATTACCA_TRY(const std::string key, cache_key(request, toolchain));
  ATTACCA_TRY(Cache::Entry entry,
              cache.get(key, [&] { return compile_and_splice(request, toolchain, times); }));
  cubin.bytes = std::move(entry.bytes);
  cubin.kernel = request.kernel->kernel;
  times.cached = entry.origin != Cache::Origin::Made;
  times.load = total.next() - times.emit - times.nvrtc - times.splice - times.assemble;
  return cubin;
}

}  // namespace attacca::gpu
