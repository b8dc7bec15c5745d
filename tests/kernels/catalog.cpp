#include "kernels/catalog.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <ostream>

#include "fmt/format.h"

#include "ptx/syntax/edits.hpp"
#include "support/check.hpp"
#include "support/files/file.hpp"

namespace attacca::kernels {

std::string to_string(const Kernel& kernel) {
  return fmt::format("{}.{}", kernel.file, kernel.entry);
}

std::string test_name(const Kernel& kernel) {
  std::string name = fmt::format("{}_{}", kernel.file, kernel.entry);
  std::replace(name.begin(), name.end(), '/', '_');
  return name;
}

void PrintTo(const Kernel& kernel, std::ostream* out) {
  *out << to_string(kernel);
}

std::vector<Kernel> eligible_kernels() {
  std::vector<Kernel> kernels;
  for (const Kernel& kernel : all_kernels())
    if (kernel.eligible) kernels.push_back(kernel);
  return kernels;
}

const std::vector<Kernel>& all_kernels() {
  static const std::vector<Kernel> kernels = {
#define ELIGIBLE(file, entry, grid, block, shared, parameters, output, dtype, rows, columns, \
                 epilogue)                                                                   \
  {file,   entry,      true, output,  ir::DType::dtype, grid, block,                         \
   shared, parameters, rows, columns, epilogue,         {},   {}},
#define REFUSED(file, entry, output, dtype, rule, line) \
  {file, entry, false, output, ir::DType::dtype, {}, {}, 0, {}, 0, 0, {}, rule, line},
#include "kernels/kernels.def"
#undef ELIGIBLE
#undef REFUSED
  };
  return kernels;
}

std::shared_ptr<const ptx::Module> module_of(std::string_view file) {
  static std::map<std::string_view, std::shared_ptr<const ptx::Module>> modules;
  std::shared_ptr<const ptx::Module>& module = modules[file];
  if (module) return module;
  const std::string name = fmt::format("{}.ptx", file);
  auto path = std::filesystem::path(ATTACCA_SOURCE_DIR) / "tests/kernels" / name;  // Triton's
  if (!std::filesystem::exists(path)) path = std::filesystem::path(ATTACCA_KERNEL_PTX) / name;
  auto text = read_file(path.string());
  ATTACCA_CHECK(text.has_value(), path.string());
  auto parsed = ptx::parse(*std::move(text), path.filename().string());
  ATTACCA_CHECK(parsed.has_value(), to_string(parsed.error()));
  module = std::make_shared<const ptx::Module>(*std::move(parsed));
  return module;
}

std::string text_of(const Kernel& kernel) {
  const auto module = module_of(kernel.file);
  ptx::Edits edits(*module);
  for (const ptx::Item& item : module->items) {
    const auto* function = std::get_if<ptx::Function>(&item);
    if (function != nullptr && function->is_entry && function->name != kernel.entry)
      edits.replace(function->span, "");
  }
  return edits.apply();
}

std::string source_line(std::string_view file, int number) {
  std::ifstream source(std::filesystem::path(ATTACCA_SOURCE_DIR) / "tests/kernels" /
                       fmt::format("{}.cu", file));
  std::string line;
  for (int i = 0; i < number; ++i)
    if (!std::getline(source, line)) return {};
  return line;
}

}  // namespace attacca::kernels
