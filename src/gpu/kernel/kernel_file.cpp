#include "gpu/kernel/kernel_file.hpp"

#include <cctype>
#include <cstdlib>
#include <cxxabi.h>
#include <memory>

#include "fmt/format.h"
#include "fmt/ranges.h"

#include "gpu/kernel/user_kernel.hpp"
#include "support/files/file.hpp"

namespace attacca::gpu {
namespace {

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
                               const std::string& file, std::string_view option) {
  std::vector<std::string> names;
  for (const ptx::Item& item : module.items)
    if (const auto* function = std::get_if<ptx::Function>(&item);
        function && function->is_entry && function->body)
      names.emplace_back(function->name);
  if (names.empty()) return fail("the file defines no kernel", file);
  if (wanted.empty() && names.size() == 1) return names.front();
  std::vector<std::string> found = matching_kernels(names, wanted);
  if (found.size() == 1) return found.front();
  const std::string given = fmt::format("{} with one of {}", option, fmt::join(names, ", "));
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

Result<LoadedKernel> load_kernel(const KernelFile& from) {
  ATTACCA_TRY(std::string text, read_file(from.file));
  if (is_ptx(from.file)) {
    ATTACCA_TRY(ptx::Module module, ptx::parse(std::move(text), from.file));
    ATTACCA_TRY(std::string entry, find_entry(module, from.kernel, from.file, from.kernel_option));
    return LoadedKernel{std::move(module), std::move(entry)};
  }
  if (from.kernel.empty())
    return fail("which kernel?", from.file,
                fmt::format("{0} NAME, or {0} 'my::kern<float, 16>'", from.kernel_option));
  KernelSource source;
  source.text = std::move(text);
  source.name = from.file;
  source.kernel = from.kernel;
  source.arch = from.arch;
  source.includes = from.includes;
  source.options = from.options;
  ATTACCA_TRY(KernelPtx compiled, compile_kernel(source));
  ATTACCA_TRY(ptx::Module module, ptx::parse(std::move(compiled.ptx), from.file + " as PTX"));
  return LoadedKernel{std::move(module), std::move(compiled.entry)};
}

}  // namespace attacca::gpu
