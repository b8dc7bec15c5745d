#include "launch/toolbox.hpp"

#include "fmt/format.h"

namespace attacca::launch {
namespace {

std::string key_of(const gpu::KernelRequest& request) {
  std::string key = fmt::format("{}|{}|{}|{}|{}|{}", request.kernel->name, name(request.a_type),
                                name(request.b_type), name(request.mode),
                                serialize(request.epilogue), epilogue::serialize(request.binding));
  for (const std::string& text : request.includes) key += "|" + text;
  return key;
}

constexpr uint32_t kSharedWithoutAsking = 48 * 1024;

}  // namespace

Result<std::shared_ptr<Toolbox>> Toolbox::open(int ordinal) {
  ATTACCA_TRY_VOID(gpu::CacheOptions::limit_from_environment());
  ATTACCA_TRY(gpu::Device device, gpu::Device::open(ordinal));
  ATTACCA_TRY(templates::Catalog catalog, templates::Catalog::open(device.driver().encode_tiled()));
  std::shared_ptr<Toolbox> made(new Toolbox(std::move(device), std::move(catalog)));
  made->vendor_ = CublasLt::open(made->device_);
  made->identity_ =
      fmt::format("attacca {}, templates {:016x}, cuBLASLt {}, driver {}", ATTACCA_VERSION,
                  made->catalog_.fingerprint(), made->vendor_ ? (*made->vendor_)->version() : 0,
                  made->device_.driver().version());
  return made;
}

Result<std::shared_ptr<const CublasLt>> Toolbox::vendor() const {
  return vendor_;
}

template <class Request>
Result<std::shared_ptr<const Kernel>> Toolbox::load_once(const std::string& key,
                                                         const Request& request,
                                                         const templates::Template* form) {
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = kernels_.find(key); found != kernels_.end()) return found->second;
  }
  ATTACCA_TRY(gpu::Cubin cubin, gpu::build(request));
  ATTACCA_TRY(gpu::Module module, gpu::Module::load(device_, cubin.bytes));
  ATTACCA_TRY(const gpu::Function function, module.function(cubin.kernel));
  const auto shared = static_cast<uint32_t>(form != nullptr ? form->shared_bytes : 0);
  if (shared > kSharedWithoutAsking) ATTACCA_TRY_VOID(function.allow_shared_bytes(shared));
  auto kernel =
      std::make_shared<const Kernel>(Kernel{std::move(module), function, form, cubin.times});
  const std::lock_guard lock(mutex_);
  return kernels_.emplace(key, std::move(kernel)).first->second;
}

Result<std::shared_ptr<const Kernel>> Toolbox::kernel(const gpu::KernelRequest& request) {
  return load_once(key_of(request), request, request.kernel);
}

Result<std::shared_ptr<const Kernel>> Toolbox::kernel(const gpu::HelperRequest& request) {
  return load_once(fmt::format("helper {}|{}|{}", request.entry, request.contract, request.source),
                   request, nullptr);
}

}  // namespace attacca::launch
