#include "jit/compile.hpp"

#include <vector>

#include "fmt/format.h"

#include "jit/library.hpp"

namespace attacca::jit {
namespace {

using Program = struct NvrtcProgram*;

// What we call of NVRTC; every function gives 0 or a code.
struct Nvrtc {
  int (*version)(int* major, int* minor);
  int (*create)(Program*, const char* source, const char* name, int headers, const char* const*,
                const char* const*);
  int (*compile)(Program, int count, const char* const* options);
  int (*ptx_size)(Program, size_t*);
  int (*ptx)(Program, char*);
  int (*log_size)(Program, size_t*);
  int (*log)(Program, char*);
  int (*destroy)(Program*);
  const char* (*error_text)(int);
  std::string path;
};

Result<Nvrtc> open() {
  ATTACCA_TRY(const Library library, Library::open(kNvrtcLibrary));
  Nvrtc nvrtc{};
  nvrtc.path = library.path();
  ATTACCA_TRY_VOID(library.resolve({{"nvrtcVersion", nvrtc.version},
                                    {"nvrtcCreateProgram", nvrtc.create},
                                    {"nvrtcCompileProgram", nvrtc.compile},
                                    {"nvrtcGetPTXSize", nvrtc.ptx_size},
                                    {"nvrtcGetPTX", nvrtc.ptx},
                                    {"nvrtcGetProgramLogSize", nvrtc.log_size},
                                    {"nvrtcGetProgramLog", nvrtc.log},
                                    {"nvrtcDestroyProgram", nvrtc.destroy},
                                    {"nvrtcGetErrorString", nvrtc.error_text}}));
  return nvrtc;
}

Result<const Nvrtc*> get() {
  return open_once(open);
}

// sm_90a -> compute_90a: NVRTC then gives PTX and no cubin.
std::string virtual_arch(const std::string& arch) {
  return arch.starts_with("sm_") ? "compute_" + arch.substr(3) : arch;
}

std::string log_of(const Nvrtc& nvrtc, Program program) {
  size_t size = 0;
  if (nvrtc.log_size(program, &size) != 0 || size <= 1) return {};
  std::string log(size, '\0');
  if (nvrtc.log(program, log.data()) != 0) return {};
  log.resize(size - 1);
  return log;
}

bool knows_minimal(const Nvrtc& nvrtc) {
  int major = 0, minor = 0;
  nvrtc.version(&major, &minor);
  return major >= 13;
}

struct ProgramOwner {
  const Nvrtc& nvrtc;
  Program program = nullptr;
  ~ProgramOwner() {
    if (program) nvrtc.destroy(&program);
  }
};

}  // namespace

Result<std::string> compile(const std::string& source, const CompileOptions& options) {
  ATTACCA_TRY(const Nvrtc* nvrtc, get());
  ProgramOwner owner{*nvrtc};
  const auto check = [&](int code, std::string_view what) -> Status {
    if (code == 0) return {};
    return fail(fmt::format("NVRTC cannot {}: {}", what, nvrtc->error_text(code)),
                log_of(*nvrtc, owner.program), "correct the epilogue's source where the log says");
  };
  ATTACCA_TRY_VOID(
      check(nvrtc->create(&owner.program, source.c_str(), "epilogue.cu", 0, nullptr, nullptr),
            "take the source"));
  const std::string arch = "-arch=" + virtual_arch(options.arch);
  // -rdc=true keeps a function that no kernel of this text calls.
  std::vector<const char*> flags = {arch.c_str(), "--std=c++17", "-rdc=true", "-default-device",
                                    options.contract ? "-fmad=true" : "-fmad=false"};
  if (options.minimal && knows_minimal(*nvrtc)) flags.push_back("-minimal");
  ATTACCA_TRY_VOID(
      check(nvrtc->compile(owner.program, static_cast<int>(flags.size()), flags.data()),
            "compile the epilogue"));
  size_t size = 0;
  ATTACCA_TRY_VOID(check(nvrtc->ptx_size(owner.program, &size), "give its PTX"));
  std::string ptx(size, '\0');
  ATTACCA_TRY_VOID(check(nvrtc->ptx(owner.program, ptx.data()), "give its PTX"));
  ptx.resize(size - 1);  // the zero byte at the end
  return ptx;
}

Result<ToolDescription> describe_compiler() {
  ATTACCA_TRY(const Nvrtc* nvrtc, get());
  int major = 0, minor = 0;
  nvrtc->version(&major, &minor);
  return ToolDescription{fmt::format("NVRTC {}.{}", major, minor), nvrtc->path};
}

}  // namespace attacca::jit
