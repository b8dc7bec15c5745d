#include "cli/kernel/kernel_source.hpp"

#include <algorithm>
#include <cctype>

#include "gpu/kernel/kernel_file.hpp"
#include "support/files/file.hpp"

namespace attacca::cli {
namespace {

bool is_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '_';
}

// "kern" of "my::kern<float, 16>"
std::string_view base_name(std::string_view kernel) {
  const std::string_view name = kernel.substr(0, kernel.find('<'));
  const size_t at = name.rfind("::");
  return at == std::string_view::npos ? name : name.substr(at + 2);
}

// The output by its name in CUDA C++ as the index of the parameter.
Result<ptx::OutputSpec> find_output(const KernelArgs& args) {
  ATTACCA_TRY(ptx::OutputSpec output, ptx::parse_output(args.output));
  if (args.file.ends_with(".ptx")) return output;
  ATTACCA_TRY(const std::string text, read_file(args.file));
  const std::vector<std::string> names = parameter_names(text, args.kernel);
  const auto named = std::find(names.begin(), names.end(), output.parameter);
  if (named != names.end()) output.parameter = std::to_string(named - names.begin());
  return output;
}

}  // namespace

std::vector<std::string> parameter_names(std::string_view source, std::string_view kernel) {
  const std::string_view base = base_name(kernel);
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
  ATTACCA_TRY(ptx::OutputSpec output, find_output(args));
  ATTACCA_TRY(gpu::LoadedKernel kernel, gpu::load_kernel({.file = args.file,
                                                          .kernel = args.kernel,
                                                          .arch = args.arch,
                                                          .includes = args.includes,
                                                          .options = args.options}));
  return LoadedKernel{std::move(kernel.module), std::move(kernel.entry), std::move(output)};
}

}  // namespace attacca::cli
