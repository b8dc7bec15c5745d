#include "jit/assemble.hpp"

#include <cstdlib>

#include "fmt/format.h"

#include "jit/nvjitlink.hpp"
#include "jit/ptxas.hpp"

namespace attacca::jit {
namespace {

Result<AssemblerDescription> describe(Assembler kind) {
  switch (kind) {
    case Assembler::NvJitLink: {
      ATTACCA_TRY(ToolDescription tool, describe_nvjitlink());
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
constexpr Choice kChoices[] = {{"nvjitlink", Assembler::NvJitLink},
                               {"ptxas", Assembler::Ptxas},
                               {"driver", Assembler::Driver}};

}  // namespace

Result<AssemblerDescription> describe_assembler() {
  const char* wanted = std::getenv("ATTACCA_ASSEMBLER");
  if (wanted && *wanted) {
    for (const auto& [name, kind] : kChoices)
      if (name == wanted) return describe(kind);
    return fail(fmt::format("unknown assembler {}", wanted), "ATTACCA_ASSEMBLER",
                "nvjitlink, ptxas or driver");
  }
  for (const Choice& choice : kChoices)
    if (auto found = describe(choice.kind)) return found;
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

}  // namespace attacca::jit
