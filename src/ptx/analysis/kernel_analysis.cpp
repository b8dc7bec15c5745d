#include "ptx/analysis/kernel_analysis.hpp"

#include <algorithm>

#include "fmt/format.h"

#include "ptx/analysis/dataflow.hpp"
#include "ptx/analysis/kernel_checks.hpp"
#include "ptx/analysis/opcode_rules.hpp"
#include "ptx/syntax/cursor.hpp"
#include "support/check.hpp"

namespace attacca::ptx {
namespace {

Result<const Function*> find_entry(const Module& module, std::string_view name) {
  std::string kernels;
  for (const Item& item : module.items) {
    const auto* function = std::get_if<Function>(&item);
    if (!function || !function->is_entry || !function->body) continue;
    if (function->name == name) return function;
    kernels += fmt::format("{}{}", kernels.empty() ? "" : ", ", function->name);
  }
  return fail(fmt::format("there is no kernel '{}'", name), module.source.where(0),
              kernels.empty() ? "the file defines none" : fmt::format("one of {}", kernels));
}

Result<size_t> find_parameter(const Module& module, const Function& entry,
                              const OutputSpec& output) {
  const std::vector<Variable>& formals = entry.parameters;
  size_t index = formals.size();
  for (size_t i = 0; i < formals.size(); ++i)
    if (formals[i].name == output.parameter) index = i;
  if (const auto number = to_integer(output.parameter); index == formals.size() && number)
    index = std::min<uint64_t>(*number, formals.size());
  if (index == formals.size())
    return fail(fmt::format("'{}' has no parameter '{}'", entry.name, output.parameter),
                module.where(entry.span),
                fmt::format("an index below {}, or a name as the PTX has it", formals.size()));
  const auto size = size_in_bytes(formals[index]);
  if (!size || *size < kPointerBytes || output.offset > *size - kPointerBytes ||
      output.offset % kPointerBytes != 0)
    return fail(fmt::format("parameter {} of '{}' holds no pointer at offset {}", index, entry.name,
                            output.offset),
                module.where(entry.span), "name the parameter that points to the output");
  return index;
}

// A module without .address_size has addresses of 32 bits.
bool has_wide_addresses(const Module& module) {
  const Directive* directive = module.find_directive(".address_size");
  return directive && directive->span.end - directive->span.begin == 2 &&
         module.tokens[directive->span.begin + 1].text() == "64";
}

bool is_debug(const Module& module) {
  const Span span = module.find_directive(".target")->span;
  for (uint32_t i = span.begin; i < span.end; ++i)
    if (module.tokens[i].text() == "debug") return true;
  return false;
}

}  // namespace

Result<OutputSpec> parse_output(std::string_view text) {
  OutputSpec output;
  const size_t plus = text.find('+');
  output.parameter = std::string(text.substr(0, plus));
  const auto bad = [&] {
    return fail(fmt::format("'{}' names no parameter", text), "--output",
                "write a name, an index, or NAME+BYTES for a pointer in a struct");
  };
  if (output.parameter.empty()) return bad();
  if (plus == std::string_view::npos) return output;
  const auto offset = to_integer(text.substr(plus + 1));
  if (!offset) return bad();
  output.offset = *offset;
  return output;
}

Result<Analysis> analyse_output(const Module& module, std::string_view entry,
                                const OutputSpec& output, uint32_t element_bytes) {
  ATTACCA_CHECK(
      element_bytes == 1 || element_bytes == 2 || element_bytes == 4 || element_bytes == 8,
      "an element of another size");
  ATTACCA_TRY(const Function* function, find_entry(module, entry));
  Analysis analysis;
  ATTACCA_TRY(analysis.parameter, find_parameter(module, *function, output));
  analysis.offset = output.offset;
  analysis.element_bytes = element_bytes;
  if (is_debug(module)) {
    analysis.reasons.push_back({"debug", "it is compiled for debugging (-G)",
                                module.where(module.find_directive(".target")->span)});
    return analysis;
  }
  if (!has_wide_addresses(module)) {
    analysis.reasons.push_back(
        {"address-size", "its addresses do not have 64 bits", module.source.where(0)});
    return analysis;
  }
  ModuleCode code(module);
  const Dataflow flow(code, *function, analysis.parameter, output.offset);
  check_kernel(module, *function, flow, analysis);
  return analysis;
}

}  // namespace attacca::ptx
