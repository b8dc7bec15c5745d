#include "gpu/compile/toolchain.hpp"

#include "gpu/compile/tool_version.hpp"

namespace attacca::gpu {

Result<std::string> Toolchain::versions() const {
  ATTACCA_TRY(const ToolDescription compiler, describe_library(kNvrtcLibrary, describe_compiler));
  ATTACCA_TRY(const AssemblerDescription assembler, describe_assembler());
  return compiler.version + ", " + assembler.tool.version;
}

Result<std::string> Toolchain::compile(const std::string& source,
                                       const CompileOptions& options) const {
  return gpu::compile(source, options);
}

Result<std::vector<char>> Toolchain::assemble(const std::string& ptx,
                                              const std::string& arch) const {
  return gpu::assemble(ptx, arch);
}

}  // namespace attacca::gpu
