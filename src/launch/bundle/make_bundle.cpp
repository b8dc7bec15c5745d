#include "launch/bundle/make_bundle.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string_view>

#include "gpu/compile/assemble.hpp"
#include "support/files/file.hpp"

namespace attacca::launch {
namespace {

bool is_cubin(const std::vector<char>& image) {
  return std::string_view(image.data(), image.size())
      .starts_with(
          "\x7f"
          "ELF");
}

// Machine code runs on every driver of its assembler's major version of CUDA and later ones.
int oldest_driver(const std::string& assembler) {
  const size_t digits = assembler.find_first_of("0123456789");
  return digits == std::string::npos ? 0 : std::atoi(assembler.c_str() + digits) * 1000;
}

Result<std::string> metadata_of(const templates::Template& form) {
  return read_file(std::filesystem::path(form.path).replace_extension(".json").string());
}

}  // namespace

Result<Bundle> make_bundle(const Toolbox& toolbox) {
  const gpu::DeviceInfo& device = toolbox.device().info();
  Bundle bundle = toolbox.bundle() ? *toolbox.bundle() : Bundle{};
  bundle.library = ATTACCA_VERSION;
  bundle.device = device.name;
  bundle.capability = device.capability();
  ATTACCA_TRY(bundle.builders, toolbox.catalog().builders_id());
  bool compiled = false;
  for (const auto& [key, kernel] : toolbox.kernels()) {
    if (!is_cubin(*kernel->image))
      return fail("a kernel has no machine code: there is no assembler here", kernel->entry,
                  "install ptxas (nvidia-cuda-nvcc from PyPI), or set ATTACCA_PTXAS to its path");
    compiled |= bundle.kernels.emplace(key, BundledKernel{kernel->entry, kernel->image}).second;
    if (kernel->form == nullptr || bundle.templates.contains(kernel->form->name)) continue;
    ATTACCA_TRY(bundle.templates[kernel->form->name], metadata_of(*kernel->form));
  }
  if (!compiled) return bundle;
  ATTACCA_TRY(const gpu::AssemblerDescription assembler, gpu::describe_assembler());
  bundle.assembler = assembler.tool.version;
  bundle.driver = std::max(bundle.driver, oldest_driver(bundle.assembler));
  return bundle;
}

}  // namespace attacca::launch
