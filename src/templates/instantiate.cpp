// A 16-bit float template's PTX for the other 16-bit float: only the matrix instructions know which
// it is, everything else moves raw bits.
#include <algorithm>
#include <array>
#include <string>

#include "fmt/format.h"

#include "support/file.hpp"
#include "templates/catalog.hpp"

namespace attacca::templates {
namespace {

// Instructions that multiply: what follows names the operands' types, such as
// wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 and mma.sync...f32.bf16.bf16.f32.
constexpr std::array<std::string_view, 2> kMatrixInstructions = {"wgmma.mma_async.", "mma.sync."};

constexpr std::string_view kBlanks = " \t\n\r";

// Opcodes follow a blank, a ';' or a '{'.
bool begins_opcode(std::string_view ptx, size_t at) {
  return at == 0 || ptx[at - 1] == ';' || ptx[at - 1] == '{' ||
         kBlanks.find(ptx[at - 1]) != std::string_view::npos;
}

void append_replaced(std::string& to, std::string_view text, std::string_view old_part,
                     std::string_view new_part) {
  for (size_t at = 0; at < text.size();) {
    const size_t found = std::min(text.find(old_part, at), text.size());
    to.append(text.substr(at, found - at));
    if (found < text.size()) to.append(new_part);
    at = found + old_part.size();
  }
}

// Replaces types in the opcodes that start with `instruction`. No other type's name contains that
// of a 16-bit float with its dot.
std::string retyped(std::string_view ptx, std::string_view instruction, std::string_view old_type,
                    std::string_view new_type) {
  std::string result;
  result.reserve(ptx.size());
  for (size_t at = 0; at < ptx.size();) {
    const size_t found = std::min(ptx.find(instruction, at), ptx.size());
    const size_t end = std::min(ptx.find_first_of(kBlanks, found), ptx.size());
    result.append(ptx.substr(at, found - at));
    if (found == ptx.size()) break;
    const std::string_view opcode = ptx.substr(found, end - found);
    if (begins_opcode(ptx, found)) {
      append_replaced(result, opcode, old_type, new_type);
    } else {
      result.append(opcode);
    }
    at = end;
  }
  return result;
}

}  // namespace

Result<std::string> instantiate(const Template& kernel, ir::DType input_type) {
  ATTACCA_TRY(std::string ptx, read_file(kernel.path));
  // A pointwise template multiplies nothing.
  if (kernel.family == Family::Pointwise) return ptx;
  bool takes = false;
  for (ir::DType type : kernel.input_types) takes = takes || type == input_type;
  if (!takes)
    return fail(fmt::format("template {} takes no {} operands", kernel.name, ir::name(input_type)),
                kernel.path, "choose another template");
  // Sources are written for the first type of the list.
  const ir::DType written = kernel.input_types.front();
  if (written == input_type) return ptx;
  const std::string old_type = fmt::format(".{}", ir::name(written));
  const std::string new_type = fmt::format(".{}", ir::name(input_type));
  for (std::string_view instruction : kMatrixInstructions)
    ptx = retyped(ptx, instruction, old_type, new_type);
  return ptx;
}

}  // namespace attacca::templates
