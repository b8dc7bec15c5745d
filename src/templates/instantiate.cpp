// A template's PTX for other operands of the same width: only the instructions that multiply or
// widen them know their types, everything else moves raw bits.
#include <algorithm>
#include <array>
#include <string>

#include "fmt/format.h"

#include "support/files/file.hpp"
#include "templates/template.hpp"

namespace attacca::templates {
namespace {

// Instructions that know the factors' types: those that multiply, such as
// wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 and mma.sync...f32.bf16.bf16.f32, and those
// that widen a factor for the kernels without them, such as cvt.f32.bf16.
constexpr std::array<std::string_view, 3> kTypedInstructions = {"wgmma.mma_async.", "mma.sync.",
                                                                "cvt.f32."};

constexpr std::string_view kBlanks = " \t\n\r";

// Opcodes follow a blank, a ';' or a '{'.
bool begins_opcode(std::string_view ptx, size_t at) {
  return at == 0 || ptx[at - 1] == ';' || ptx[at - 1] == '{' ||
         kBlanks.find(ptx[at - 1]) != std::string_view::npos;
}

// A type as matrix instructions write it.
std::string type_suffix(ir::DType dtype) {
  if (dtype == ir::DType::F8E4M3) return ".e4m3";
  if (dtype == ir::DType::F8E5M2) return ".e5m2";
  return fmt::format(".{}", ir::name(dtype));
}

// The types of the factors, in the instruction's order.
struct Factors {
  std::string first, second;
};

// An opcode names the first factor's type, then the second's; one that widens a factor, the one
// type that both have.
void append_replaced(std::string& to, std::string_view opcode, std::string_view written,
                     const Factors& types) {
  const size_t first = opcode.find(written);
  if (first == opcode.npos) {
    to.append(opcode);
    return;
  }
  to.append(opcode.substr(0, first)).append(types.first);
  const std::string_view rest = opcode.substr(first + written.size());
  const size_t second = rest.find(written);
  to.append(rest.substr(0, second));
  if (second != rest.npos) to.append(types.second).append(rest.substr(second + written.size()));
}

// Replaces types in the opcodes that start with `instruction`. No other type's name contains one of
// the written ones with its dot.
std::string retyped(std::string_view ptx, std::string_view instruction, std::string_view written,
                    const Factors& types) {
  std::string result;
  result.reserve(ptx.size());
  for (size_t at = 0; at < ptx.size();) {
    const size_t found = std::min(ptx.find(instruction, at), ptx.size());
    const size_t end = std::min(ptx.find_first_of(kBlanks, found), ptx.size());
    result.append(ptx.substr(at, found - at));
    if (found == ptx.size()) break;
    const std::string_view opcode = ptx.substr(found, end - found);
    if (begins_opcode(ptx, found)) {
      append_replaced(result, opcode, written, types);
    } else {
      result.append(opcode);
    }
    at = end;
  }
  return result;
}

}  // namespace

bool takes(const Template& kernel, ir::DType dtype) {
  return std::find(kernel.input_types.begin(), kernel.input_types.end(), dtype) !=
         kernel.input_types.end();
}

Result<std::string> instantiate(const Template& kernel, ir::DType a, ir::DType b) {
  ATTACCA_TRY(std::string ptx, read_file(kernel.path));
  // A pointwise template multiplies nothing.
  if (kernel.family == Family::Pointwise) return ptx;
  if (!takes(kernel, a) || !takes(kernel, b) || (a != b && !kernel.mixed_inputs))
    return fail(fmt::format("template {} takes no {} by {} operands", kernel.name, ir::name(a),
                            ir::name(b)),
                kernel.path, "choose another template");
  // Sources are written for the first type of the list.
  const ir::DType written = kernel.input_types.front();
  if (written == a && written == b) return ptx;
  Factors types{type_suffix(a), type_suffix(b)};
  if (kernel.b_first) std::swap(types.first, types.second);
  for (std::string_view instruction : kTypedInstructions)
    ptx = retyped(ptx, instruction, type_suffix(written), types);
  return ptx;
}

}  // namespace attacca::templates
