#include "gpu/compile/compile.hpp"

#include <vector>

#include "fmt/format.h"

#include "gpu/compile/nvrtc.hpp"

namespace attacca::gpu {
namespace {

bool knows_minimal(const Nvrtc& nvrtc) {
  int major = 0, minor = 0;
  nvrtc.version(&major, &minor);
  return major >= 13;
}

// What is compiled, in errors and in the log.
struct Subject {
  std::string name, file, fix;
};

Subject subject_of(const CompileOptions& options) {
  if (options.helper.empty())
    return {"the epilogue", "epilogue.cu", "correct the epilogue's source where the log says"};
  return {fmt::format("Attacca's helper kernel {}", options.helper), options.helper + ".cu",
          "check NVRTC with `attacca doctor`; if it is whole, report the log"};
}

}  // namespace

Result<std::string> compile(const std::string& source, const CompileOptions& options) {
  ATTACCA_TRY(const Nvrtc* nvrtc, open_nvrtc());
  ProgramOwner owner{*nvrtc};
  const Subject subject = subject_of(options);
  const auto check = [&](int code, std::string_view what) -> Status {
    if (code == 0) return {};
    return fail(fmt::format("NVRTC cannot {} {}: {}", what, subject.name, nvrtc->error_text(code)),
                log_of(*nvrtc, owner.program), subject.fix);
  };
  ATTACCA_TRY_VOID(check(
      nvrtc->create(&owner.program, source.c_str(), subject.file.c_str(), 0, nullptr, nullptr),
      "take the source of"));
  const std::string arch = "-arch=" + virtual_arch(options.arch);
  // -rdc=true keeps a function that no kernel of this text calls.
  std::vector<const char*> flags = {arch.c_str(), "--std=c++17", "-rdc=true", "-default-device",
                                    options.contract ? "-fmad=true" : "-fmad=false"};
  if (options.minimal && knows_minimal(*nvrtc)) flags.push_back("-minimal");
  ATTACCA_TRY_VOID(check(
      nvrtc->compile(owner.program, static_cast<int>(flags.size()), flags.data()), "compile"));
  return ptx_of(*nvrtc, owner.program);
}

Result<ToolDescription> describe_compiler() {
  ATTACCA_TRY(const Nvrtc* nvrtc, open_nvrtc());
  int major = 0, minor = 0;
  nvrtc->version(&major, &minor);
  return ToolDescription{fmt::format("NVRTC {}.{}", major, minor), nvrtc->path};
}

}  // namespace attacca::gpu
