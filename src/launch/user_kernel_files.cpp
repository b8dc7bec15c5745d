#include "launch/user_kernel_files.hpp"

#include "fmt/format.h"

#include "gpu/devices.hpp"
#include "gpu/kernel/kernel_image.hpp"
#include "support/check.hpp"
#include "support/files/file.hpp"

namespace attacca::launch {

const ptx::Function& UserKernelFile::function() const {
  for (const ptx::Item& item : module().items)
    if (const auto* function = std::get_if<ptx::Function>(&item);
        function && function->name == entry() && function->body)
      return *function;
  ATTACCA_CHECK(false, "a kernel that was found is gone");
}

Result<const ptx::Analysis*> UserKernelFile::analysis(size_t parameter,
                                                      uint32_t element_bytes) const {
  const std::lock_guard lock(mutex_);
  const std::pair key(parameter, element_bytes);
  if (const auto found = analyses_made_.find(key); found != analyses_made_.end())
    return &found->second;
  ++analyses_;
  ATTACCA_TRY(
      ptx::Analysis made,
      ptx::analyse_output(module(), entry(), {std::to_string(parameter), 0}, element_bytes));
  return &analyses_made_.emplace(key, std::move(made)).first->second;
}

Result<std::shared_ptr<const UserKernelFile>> UserKernelFiles::load(const ir::KernelCall& call,
                                                                    int capability) {
  ATTACCA_TRY(const std::string text, read_file(call.file));
  const std::string key = fmt::format("{}\n{}\n{}\n{}\n{}", call.file, call.entry, capability,
                                      fmt::join(call.options, "\n"), text);
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = files_.find(key); found != files_.end()) return found->second;
  }
  ATTACCA_TRY(gpu::LoadedKernel loaded, gpu::load_kernel({.file = call.file,
                                                          .kernel = call.entry,
                                                          .arch = gpu::native_arch(capability),
                                                          .includes = {},
                                                          .options = call.options,
                                                          .kernel_option = "entry="}));
  auto made = std::make_shared<const UserKernelFile>(std::move(loaded), analyses_);
  const std::lock_guard lock(mutex_);
  return files_.emplace(key, std::move(made)).first->second;
}

}  // namespace attacca::launch
