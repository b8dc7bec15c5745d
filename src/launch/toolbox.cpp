#include "launch/toolbox.hpp"

#include <algorithm>

#include "fmt/format.h"

namespace attacca::launch {
namespace {

std::string key_of(const gpu::KernelRequest& request) {
  std::string key =
      fmt::format("{}|{}|{}|{}|{}|{}", request.kernel->name, name(request.a_type),
                  name(request.b_type), name(request.mode), serialize_in_order(request.epilogue),
                  epilogue::serialize(request.binding));
  if (request.problems > 1) key += fmt::format("|{} problems", request.problems);
  if (request.has_signals) key += "|signals";
  for (const std::string& text : request.includes) key += "|" + text;
  return key;
}

std::vector<std::string> metadata_of(const Bundle& bundle) {
  std::vector<std::string> all;
  for (const auto& [name, metadata] : bundle.templates) all.push_back(metadata);
  return all;
}

// How many of the device's multiprocessors the template's blocks fill at once. A cluster's blocks
// run beside each other, so those of more than two may leave some multiprocessors without any.
Result<int> filled_multiprocessors(const gpu::DeviceInfo& device, const gpu::Function& function,
                                   const templates::Template& form) {
  const int cluster = form.cluster_m * form.cluster_n * form.cluster_k;
  if (cluster <= 2) return device.sm_count;
  const auto shared = static_cast<uint32_t>(form.shared_bytes);
  ATTACCA_TRY(const int blocks, function.max_blocks_per_sm(form.threads, shared));
  ATTACCA_TRY(const int clusters,
              function.max_clusters({.grid = {static_cast<uint32_t>(cluster), 1, 1},
                                     .block = {static_cast<uint32_t>(form.threads), 1, 1},
                                     .shared_bytes = shared}));
  return std::clamp(clusters * cluster / std::max(blocks, 1), 1, device.sm_count);
}

}  // namespace

Result<Kernel> load_kernel(const gpu::Device& device, std::span<const char> image,
                           const std::string& entry, const templates::Template* form) {
  const gpu::Current current(device);
  ATTACCA_TRY_VOID(current.entered());
  Kernel kernel;
  kernel.form = form;
  ATTACCA_TRY(kernel.module, gpu::Module::load(device, image));
  ATTACCA_TRY(kernel.function, kernel.module.function(entry));
  if (form != nullptr) {
    ATTACCA_TRY_VOID(kernel.function.allow_shared_bytes(static_cast<uint32_t>(form->shared_bytes)));
    ATTACCA_TRY(kernel.multiprocessors,
                filled_multiprocessors(device.info(), kernel.function, *form));
  }
  return kernel;
}

Result<std::shared_ptr<Toolbox>> Toolbox::open(int ordinal) {
  ATTACCA_TRY(gpu::Device device, gpu::Device::open(ordinal));
  return open(std::move(device));
}

Result<std::shared_ptr<Toolbox>> Toolbox::open(gpu::Device device,
                                               std::shared_ptr<const Bundle> bundle) {
  ATTACCA_TRY_VOID(gpu::CacheOptions::limit_from_environment());
  if (bundle) ATTACCA_TRY_VOID(check_device(*bundle, device));
  void* const encode_tiled = device.driver().encode_tiled();
  ATTACCA_TRY(templates::Catalog catalog,
              bundle ? templates::Catalog::of(metadata_of(*bundle), encode_tiled)
                     : templates::Catalog::open(encode_tiled));
  if (bundle) {
    ATTACCA_TRY(const std::string builders, catalog.builders_id());
    ATTACCA_TRY_VOID(check_builders(*bundle, builders));
  }
  std::shared_ptr<Toolbox> made(
      new Toolbox(std::move(device), std::move(catalog), std::move(bundle)));
  made->identity_ =
      fmt::format("attacca {}, templates {:016x}, ", ATTACCA_VERSION, made->catalog_.fingerprint());
  if (made->bundle_) {
    made->identity_ += "bundle";
  } else {
    const auto vendor = made->vendor();
    made->identity_ += fmt::format("cuBLASLt {}, driver {}", vendor ? (*vendor)->version() : 0,
                                   made->device_.driver().version());
  }
  return made;
}

Result<std::shared_ptr<const CublasLt>> Toolbox::vendor() const {
  std::call_once(vendor_once_, [this] {
    if (device_.is_here()) vendor_ = CublasLt::open(device_);
  });
  return vendor_;
}

template <class Request>
Result<gpu::Cubin> Toolbox::image_of(const std::string& key, const Request& request) const {
  if (!bundle_) return gpu::build(request);
  if (const auto found = bundle_->kernels.find(key); found != bundle_->kernels.end())
    return gpu::Cubin{found->second.image, found->second.entry, {.cached = true}};
  return gpu::build(request);
}

template <class Request>
Result<std::shared_ptr<const Kernel>> Toolbox::load_once(const std::string& key,
                                                         const Request& request,
                                                         const templates::Template* form) {
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = kernels_.find(key); found != kernels_.end()) return found->second;
  }
  ATTACCA_TRY(gpu::Cubin cubin, image_of(key, request));
  Kernel kernel;
  kernel.form = form;
  if (device_.is_here()) {
    ATTACCA_TRY(kernel, load_kernel(device_, *cubin.bytes, cubin.kernel, form));
  }
  kernel.times = cubin.times;
  kernel.entry = std::move(cubin.kernel);
  kernel.image = std::move(cubin.bytes);
  const std::lock_guard lock(mutex_);
  return kernels_.emplace(key, std::make_shared<const Kernel>(std::move(kernel))).first->second;
}

Toolbox::Kernels Toolbox::kernels() const {
  const std::lock_guard lock(mutex_);
  return kernels_;
}

void Toolbox::forget_kernels() {
  const std::lock_guard lock(mutex_);
  kernels_.clear();
}

bool Toolbox::has(const gpu::KernelRequest& request) const {
  const std::string key = key_of(request);
  const std::lock_guard lock(mutex_);
  return kernels_.contains(key) || (bundle_ && bundle_->kernels.contains(key));
}

Result<std::shared_ptr<const Kernel>> Toolbox::kernel(const gpu::KernelRequest& request) {
  return load_once(key_of(request), request, request.kernel);
}

Result<std::shared_ptr<const Kernel>> Toolbox::kernel(const gpu::HelperRequest& request) {
  return load_once(fmt::format("helper {}|{}|{}", request.entry, request.contract, request.source),
                   request, nullptr);
}

}  // namespace attacca::launch
