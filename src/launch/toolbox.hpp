// Everything to make and launch kernels on one device: the device, the templates, the vendor
// library, and the kernels loaded so far.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>

#include "gpu/driver/device.hpp"
#include "gpu/kernel/helper_kernel.hpp"
#include "launch/bundle/bundle.hpp"
#include "launch/cublaslt.hpp"
#include "launch/user_kernel_files.hpp"
#include "templates/catalog.hpp"

namespace attacca::launch {

// A kernel in the device's memory, ready to launch.
struct Kernel {
  gpu::Module module;
  gpu::Function function;
  const templates::Template* form = nullptr;  // null for a helper kernel
  int multiprocessors = 0;                    // of the device: those that its blocks fill at once
  gpu::CompileTimes times = {};
  std::string entry = {};
  gpu::Bytes image = {};
};

// A kernel without its times, entry and image. `form`: null for a helper kernel.
Result<Kernel> load_kernel(const gpu::Device& device, std::span<const char> image,
                           const std::string& entry, const templates::Template* form);

// Thread-safe. What was made with it keeps it alive.
class Toolbox {
 public:
  // Errors: no driver, no such device, no templates, an environment variable with a wrong value. A
  // missing cuBLASLt is not an error: vendor() reports it.
  static Result<std::shared_ptr<Toolbox>> open(int ordinal = 0);
  // For a device that is described and not present, kernels are made but not loaded. With `bundle`,
  // there are only its templates, and kernels come from it; those that it lacks are compiled.
  // Errors: also those of check_device() and check_builders().
  static Result<std::shared_ptr<Toolbox>> open(gpu::Device device,
                                               std::shared_ptr<const Bundle> bundle = {});

  const gpu::Device& device() const { return device_; }
  const templates::Catalog& catalog() const { return catalog_; }
  Result<std::shared_ptr<const CublasLt>> vendor() const;

  // What measurements depend on besides the device: the versions of Attacca, its templates,
  // cuBLASLt and the driver. With a bundle, which needs no cuBLASLt, the last two are left out.
  const std::string& identity() const { return identity_; }

  // Null where there is none.
  const std::shared_ptr<const Bundle>& bundle() const { return bundle_; }
  // The kernels made so far. Their keys name no shape, no device and no tool.
  using Kernels = std::map<std::string, std::shared_ptr<const Kernel>, std::less<>>;
  Kernels kernels() const;
  // Leaves them to those that run them.
  void forget_kernels();
  // Whether the kernel was made, or is in the bundle.
  bool has(const gpu::KernelRequest& request) const;

  UserKernelFiles& user_kernels() { return user_kernels_; }

  // Built or taken from the cache, loaded once.
  Result<std::shared_ptr<const Kernel>> kernel(const gpu::KernelRequest& request);
  Result<std::shared_ptr<const Kernel>> kernel(const gpu::HelperRequest& request);

 private:
  Toolbox(gpu::Device device, templates::Catalog catalog, std::shared_ptr<const Bundle> bundle)
      : device_(std::move(device)), catalog_(std::move(catalog)), bundle_(std::move(bundle)) {}

  template <class Request>
  Result<std::shared_ptr<const Kernel>> load_once(const std::string& key, const Request& request,
                                                  const templates::Template* form);
  template <class Request>
  Result<gpu::Cubin> image_of(const std::string& key, const Request& request) const;

  gpu::Device device_;
  templates::Catalog catalog_;
  std::shared_ptr<const Bundle> bundle_;
  mutable std::once_flag vendor_once_;
  mutable Result<std::shared_ptr<const CublasLt>> vendor_ = fail("cuBLASLt was not opened");
  std::string identity_;
  UserKernelFiles user_kernels_;
  mutable std::mutex mutex_;
  Kernels kernels_;
};

}  // namespace attacca::launch
