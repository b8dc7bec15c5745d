#include "gpu/compile/nvrtc.hpp"

#include "fmt/format.h"

#include "gpu/driver/library.hpp"

namespace attacca::gpu {
namespace {

Result<Nvrtc> open_library() {
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
                                    {"nvrtcAddNameExpression", nvrtc.add_name},
                                    {"nvrtcGetLoweredName", nvrtc.lowered_name},
                                    {"nvrtcGetErrorString", nvrtc.error_text}}));
  return nvrtc;
}

}  // namespace

Result<const Nvrtc*> open_nvrtc() {
  return open_once(open_library);
}

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

Result<std::string> ptx_of(const Nvrtc& nvrtc, Program program) {
  size_t size = 0;
  int code = nvrtc.ptx_size(program, &size);
  std::string ptx(size, '\0');
  if (code == 0) code = nvrtc.ptx(program, ptx.data());
  if (code != 0 || size == 0)
    return fail(fmt::format("NVRTC cannot give its PTX: {}", nvrtc.error_text(code)));
  ptx.resize(size - 1);  // the zero byte at the end
  return ptx;
}

}  // namespace attacca::gpu
