#include "ptx/syntax/signature.hpp"

#include "fmt/format.h"

#include "ptx/syntax/cursor.hpp"

namespace attacca::ptx {
namespace {

std::string describe_type(const Variable& variable) {
  std::string text(variable.space == ".param" ? "" : fmt::format("{} ", variable.space));
  text += variable.type;
  for (const auto& extent : variable.dims)
    text += extent ? fmt::format("[{}]", *extent) : std::string("[]");
  return text;
}

std::string describe_types(const std::vector<Variable>& variables) {
  std::string text;
  for (const Variable& variable : variables)
    text += fmt::format("{}{}", text.empty() ? "" : ", ", describe_type(variable));
  return text;
}

bool says_float(const Variable& variable) {
  return variable.type == ".f16" || variable.type == ".f32" || variable.type == ".f64";
}
bool says_integer(const Variable& variable) {
  return variable.type.starts_with(".u") || variable.type.starts_with(".s");
}

bool agree(const Variable& a, const Variable& b) {
  if (a.space != ".param" || b.space != ".param") return false;
  const auto size = size_in_bytes(a);
  if (!size || *size == 0 || size != size_in_bytes(b)) return false;
  return !(says_float(a) && says_integer(b)) && !(says_integer(a) && says_float(b));
}

bool agree(const std::vector<Variable>& a, const std::vector<Variable>& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i)
    if (!agree(a[i], b[i])) return false;
  return true;
}

std::string arguments_of(const Module& module, std::string_view directive) {
  const Directive* found = module.find_directive(directive);
  if (!found) return {};
  std::string text;
  for (uint32_t i = found->span.begin + 1; i < found->span.end; ++i)
    text += module.tokens[i].text();
  return text;
}

struct Version {
  uint64_t major = 0;
  uint64_t minor = 0;
  auto operator<=>(const Version&) const = default;
};

Result<Version> version_of(const Module& module) {
  const std::string text = arguments_of(module, ".version");
  const size_t dot = text.find('.');
  if (dot != std::string::npos) {
    const auto major = to_integer(std::string_view(text).substr(0, dot));
    const auto minor = to_integer(std::string_view(text).substr(dot + 1));
    if (major && minor) return Version{*major, *minor};
  }
  return fail(fmt::format("'{}' is no PTX version", text),
              module.where(module.find_directive(".version")->span), "write one such as 8.7");
}

Status check_equal(const Module& kernel, const Module& epilogue, std::string_view directive,
                   std::string_view what) {
  const std::string wanted = arguments_of(kernel, directive);
  const std::string got = arguments_of(epilogue, directive);
  if (wanted == got) return {};
  const Directive* place = epilogue.find_directive(directive);
  return fail(fmt::format("the kernel is for {} {}, the epilogue for {}", what, wanted, got),
              place ? epilogue.where(place->span) : epilogue.source.where(0),
              fmt::format("compile the epilogue for {}", wanted));
}

}  // namespace

std::string describe_signature(const Function& function) {
  return fmt::format("({}) -> ({})", describe_types(function.parameters),
                     describe_types(function.results));
}

Status check_signatures(const Module& kernel, const Function& hole, const Module& epilogue,
                        const Function& filling) {
  if (agree(hole.parameters, filling.parameters) && agree(hole.results, filling.results)) return {};
  return fail(
      fmt::format("the kernel calls '{}' as {} ({}), the epilogue defines it as {}", hole.name,
                  describe_signature(hole), kernel.where(hole.span), describe_signature(filling)),
      epilogue.where(filling.span),
      "give the epilogue the parameters and results that the kernel declares");
}

Result<std::string> common_version(const Module& kernel, const Module& epilogue) {
  ATTACCA_TRY_VOID(check_equal(kernel, epilogue, ".target", "the target"));
  ATTACCA_TRY_VOID(check_equal(kernel, epilogue, ".address_size", "addresses of size"));
  ATTACCA_TRY(const Version ours, version_of(kernel));
  ATTACCA_TRY(const Version theirs, version_of(epilogue));
  const Version newer = std::max(ours, theirs);
  return fmt::format("{}.{}", newer.major, newer.minor);
}

}  // namespace attacca::ptx
