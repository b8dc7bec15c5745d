#include <filesystem>

#include "fmt/format.h"

#include "gpu/compile/nvrtc.hpp"
#include "gpu/kernel/user_kernel.hpp"

namespace attacca::gpu {
namespace {

// CUDA's headers, where they lie beside NVRTC: in .../include for .../lib and .../lib64.
std::vector<std::string> cuda_includes(const Nvrtc& nvrtc) {
  std::error_code ignored;
  std::filesystem::path folder = std::filesystem::canonical(nvrtc.path, ignored).parent_path();
  for (int up = 0; up < 4 && folder.has_relative_path(); ++up, folder = folder.parent_path()) {
    const std::filesystem::path include = folder / "include";
    if (!std::filesystem::exists(include / "cuda_fp16.h", ignored)) continue;
    return {include.string(), (include / "cccl").string()};
  }
  return {};
}

}  // namespace

Result<KernelPtx> compile_kernel(const KernelSource& source) {
  ATTACCA_TRY(const Nvrtc* nvrtc, open_nvrtc());
  ProgramOwner owner{*nvrtc};
  const auto check = [&](int code, std::string_view what) -> Status {
    if (code == 0) return {};
    return fail(fmt::format("NVRTC cannot {}: {}", what, nvrtc->error_text(code)),
                log_of(*nvrtc, owner.program), "correct the kernel's source where the log says");
  };
  ATTACCA_TRY_VOID(check(
      nvrtc->create(&owner.program, source.text.c_str(), source.name.c_str(), 0, nullptr, nullptr),
      "take the source"));
  ATTACCA_TRY_VOID(check(nvrtc->add_name(owner.program, source.kernel.c_str()),
                         fmt::format("take the kernel's name '{}'", source.kernel)));
  std::vector<std::string> flags = {"-arch=" + virtual_arch(source.arch), "--std=c++17",
                                    "-lineinfo"};
  for (const std::string& folder : source.includes) flags.push_back("-I" + folder);
  for (const std::string& folder : cuda_includes(*nvrtc)) flags.push_back("-I" + folder);
  flags.insert(flags.end(), source.options.begin(), source.options.end());
  std::vector<const char*> arguments;
  for (const std::string& flag : flags) arguments.push_back(flag.c_str());
  ATTACCA_TRY_VOID(
      check(nvrtc->compile(owner.program, static_cast<int>(arguments.size()), arguments.data()),
            "compile the kernel"));
  const char* entry = nullptr;
  ATTACCA_TRY_VOID(check(nvrtc->lowered_name(owner.program, source.kernel.c_str(), &entry),
                         fmt::format("find the kernel '{}'", source.kernel)));
  KernelPtx result;
  result.entry = entry;
  ATTACCA_TRY(result.ptx, ptx_of(*nvrtc, owner.program));
  return result;
}

}  // namespace attacca::gpu
