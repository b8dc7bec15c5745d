#include "gpu/compile/assemble.hpp"

#include <cstdio>
#include <utility>

#include "fmt/format.h"

#include "gpu/compile/nvjitlink.hpp"
#include "gpu/compile/ptxas.hpp"
#include "gpu/compile/tool_version.hpp"
#include "support/environment.hpp"

namespace attacca::gpu {
namespace {

Result<AssemblerDescription> describe(Assembler kind) {
  switch (kind) {
    case Assembler::NvJitLink: {
      ATTACCA_TRY(ToolDescription tool, describe_library(kNvJitLinkLibrary, describe_nvjitlink));
      return AssemblerDescription{kind, std::move(tool)};
    }
    case Assembler::Ptxas: {
      ATTACCA_TRY(ToolDescription tool, describe_ptxas());
      return AssemblerDescription{kind, std::move(tool)};
    }
    case Assembler::Driver:
      return AssemblerDescription{kind, {"driver", ""}};
  }
  return fail("unknown assembler");
}

struct Choice {
  std::string_view name;
  Assembler kind;
};
constexpr Choice kChoices[] = {{"ptxas", Assembler::Ptxas},
                               {"nvjitlink", Assembler::NvJitLink},
                               {"driver", Assembler::Driver}};

// (13, 0) of "ptxas 13.0.88" and of "nvJitLink 13.0".
std::pair<int, int> release(const ToolDescription& tool) {
  std::pair<int, int> found;
  const size_t digits = tool.version.find_first_of("0123456789");
  if (digits != std::string::npos)
    std::sscanf(tool.version.c_str() + digits, "%d.%d", &found.first, &found.second);
  return found;
}

}  // namespace

Result<AssemblerDescription> describe_assembler() {
  if (const std::string wanted = environment("ATTACCA_ASSEMBLER"); !wanted.empty()) {
    for (const auto& [name, kind] : kChoices)
      if (name == wanted) return describe(kind);
    return fail(fmt::format("unknown assembler {}", wanted), "ATTACCA_ASSEMBLER",
                "ptxas, nvjitlink or driver");
  }
  auto ptxas = describe(Assembler::Ptxas), linker = describe(Assembler::NvJitLink);
  if (!ptxas && !environment("ATTACCA_PTXAS").empty()) return ptxas;
  if (!linker && !environment(kNvJitLinkLibrary.override_variable).empty()) return linker;
  if (ptxas && linker) return release(ptxas->tool) < release(linker->tool) ? linker : ptxas;
  if (ptxas) return ptxas;
  if (linker) return linker;
  return describe(Assembler::Driver);
}

Result<std::vector<char>> assemble(const std::string& ptx, const std::string& arch) {
  ATTACCA_TRY(const AssemblerDescription assembler, describe_assembler());
  return assemble(ptx, arch, assembler);
}

Result<std::vector<char>> assemble(const std::string& ptx, const std::string& arch,
                                   const AssemblerDescription& assembler) {
  switch (assembler.kind) {
    case Assembler::NvJitLink:
      return assemble_with_nvjitlink(ptx, arch);
    case Assembler::Ptxas:
      return assemble_with_ptxas(ptx, arch, assembler.tool.path);
    case Assembler::Driver:
      return std::vector<char>(ptx.begin(), ptx.end());
  }
  return fail("unknown assembler");
}

}  // namespace attacca::gpu
