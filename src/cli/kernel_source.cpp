#include "cli/kernel_source.hpp"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <cxxabi.h>
#include <memory>

#include "fmt/format.h"
#include "fmt/ranges.h"

#include "jit/user_kernel.hpp"
#include "support/file.hpp"

namespace attacca::cli {
namespace {

bool is_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '_';
}

std::string without_blanks(std::string_view text) {
  std::string plain;
  for (const char c : text)
    if (!std::isspace(static_cast<unsigned char>(c))) plain += c;
  return plain;
}

std::string demangled(const std::string& name) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(
      abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status), &std::free);
  return status == 0 ? std::string(text.get()) : name;
}

// "void my::kern<float, (int)16>(float*)" -> "my::kern<float,16>"
std::string short_name(const std::string& mangled) {
  std::string text = demangled(mangled);
  for (const std::string_view cast : {"(int)", "(unsigned int)", "(bool)", "(long)"})
    for (size_t at; (at = text.find(cast)) != std::string::npos;) text.erase(at, cast.size());
  int depth = 0;
  size_t begin = 0, end = text.size();
  for (size_t i = 0; i < text.size(); ++i) {
    depth += text[i] == '<' ? 1 : text[i] == '>' ? -1 : 0;
    if (depth != 0) continue;
    if (text[i] == ' ') begin = i + 1;
    if (text[i] == '(') {
      end = i;
      break;
    }
  }
  return without_blanks(std::string_view(text).substr(begin, end - begin));
}

std::string_view without_template(std::string_view name) {
  return name.substr(0, name.find('<'));
}
std::string_view without_namespaces(std::string_view name) {
  const size_t at = without_template(name).rfind("::");
  return at == std::string_view::npos ? name : name.substr(at + 2);
}

Result<std::string> find_entry(const ptx::Module& module, const std::string& wanted,
                               const std::string& file) {
  std::vector<std::string> names;
  for (const ptx::Item& item : module.items)
    if (const auto* function = std::get_if<ptx::Function>(&item);
        function && function->is_entry && function->body)
      names.emplace_back(function->name);
  if (names.empty()) return fail("the file defines no kernel", file);
  if (wanted.empty() && names.size() == 1) return names.front();
  std::vector<std::string> found = matching_kernels(names, wanted);
  if (found.size() == 1) return found.front();
  const std::string given = fmt::format("--kernel with one of {}", fmt::join(names, ", "));
  if (wanted.empty()) return fail("the file defines several kernels", file, given);
  return fail(
      fmt::format("{} kernel '{}'", found.empty() ? "there is no" : "several are called", wanted),
      file, given);
}

bool is_ptx(const std::string& file) {
  return file.ends_with(".ptx");
}

}  // namespace

std::vector<std::string> matching_kernels(const std::vector<std::string>& names,
                                          std::string_view wanted) {
  const std::string plain = without_blanks(wanted);
  const auto matches = [&](int how) {
    std::vector<std::string> found;
    for (const std::string& name : names) {
      const std::string own = short_name(name);
      const bool same = how == 0   ? name == wanted
                        : how == 1 ? own == plain
                        : how == 2 ? without_template(own) == plain
                                   : without_namespaces(own) == plain ||
                                         without_template(without_namespaces(own)) == plain;
      if (same) found.push_back(name);
    }
    return found;
  };
  for (int how = 0; how < 4; ++how)
    if (auto found = matches(how); !found.empty()) return found;
  return {};
}

std::vector<std::string> parameter_names(std::string_view source, std::string_view kernel) {
  const std::string_view base = without_template(without_namespaces(kernel));
  for (size_t at = source.find(base); at != std::string_view::npos;
       at = source.find(base, at + 1)) {
    size_t open = at + base.size();
    while (open < source.size() && std::isspace(static_cast<unsigned char>(source[open]))) ++open;
    if ((at > 0 && is_word(source[at - 1])) || open == source.size() || source[open] != '(')
      continue;
    const std::string_view before = source.substr(0, at);
    const size_t global = before.rfind("__global__");
    if (global == std::string_view::npos ||
        before.find_first_of(";}", global) != std::string_view::npos)
      continue;
    std::vector<std::string> names;
    std::string name;
    bool in_default = false;
    int depth = 0;
    for (size_t i = open; i < source.size(); ++i) {
      const char c = source[i];
      const bool ends = (c == ',' && depth == 1) || (c == ')' && depth == 1);
      if (c == '(' || c == '<' || c == '[' || c == '{') ++depth;
      if (c == ')' || c == '>' || c == ']' || c == '}') --depth;
      if (ends) {
        names.push_back(name);
        name.clear();
        in_default = false;
        if (c == ')') return names;
      } else if (c == '=') {
        in_default = true;
      } else if (is_word(c) && depth == 1 && !in_default) {
        if (!is_word(source[i - 1])) name.clear();
        name += c;
      }
    }
  }
  return {};
}

Result<LoadedKernel> load_kernel(const KernelArgs& args) {
  ATTACCA_TRY(std::string text, read_file(args.file));
  ATTACCA_TRY(ptx::OutputSpec output, ptx::parse_output(args.output));
  if (is_ptx(args.file)) {
    ATTACCA_TRY(ptx::Module module, ptx::parse(std::move(text), args.file));
    ATTACCA_TRY(std::string entry, find_entry(module, args.kernel, args.file));
    return LoadedKernel{std::move(module), std::move(entry), std::move(output)};
  }
  if (args.kernel.empty())
    return fail("which kernel?", args.file, "--kernel NAME, or --kernel 'my::kern<float, 16>'");
  const std::vector<std::string> names = parameter_names(text, args.kernel);
  const auto named = std::find(names.begin(), names.end(), output.parameter);
  if (named != names.end()) output.parameter = std::to_string(named - names.begin());
  jit::KernelSource source;
  source.text = std::move(text);
  source.name = args.file;
  source.kernel = args.kernel;
  source.arch = args.arch;
  source.includes = args.includes;
  source.options = args.options;
  ATTACCA_TRY(jit::KernelPtx compiled, jit::compile_kernel(source));
  ATTACCA_TRY(ptx::Module module, ptx::parse(std::move(compiled.ptx), args.file + " as PTX"));
  return LoadedKernel{std::move(module), std::move(compiled.entry), std::move(output)};
}

}  // namespace attacca::cli
