// The few functions of the CUDA driver that the example needs, opened at run time: the program
// builds and runs without CUDA.
#pragma once

#include <cstddef>
#include <cstdint>
#include <dlfcn.h>
#include <vector>

// A GPU's memory and default stream, while the program runs.
class Cuda {
 public:
  Cuda() : library_(dlopen("libcuda.so.1", RTLD_NOW)) {
    if (library_ == nullptr) return;
    int device = 0;
    void* context = nullptr;
    usable_ = load("cuInit", init_) && load("cuDeviceGet", get_device_) &&
              load("cuDevicePrimaryCtxRetain", retain_) && load("cuCtxSetCurrent", set_current_) &&
              load("cuMemAlloc_v2", allocate_) && load("cuMemFree_v2", free_) &&
              load("cuMemcpyHtoD_v2", to_device_) && load("cuMemcpyDtoH_v2", to_host_) &&
              init_(0) == 0 && get_device_(&device, 0) == 0 && retain_(&context, device) == 0 &&
              set_current_(context) == 0;
  }
  ~Cuda() {
    for (const uint64_t block : blocks_) free_(block);
  }
  Cuda(const Cuda&) = delete;
  Cuda& operator=(const Cuda&) = delete;

  bool usable() const { return usable_; }

  // nullptr where there is no memory.
  void* allocate(size_t bytes) {
    uint64_t address = 0;
    if (bytes == 0 || allocate_(&address, bytes) != 0) return nullptr;
    blocks_.push_back(address);
    return reinterpret_cast<void*>(address);
  }
  bool to_device(void* to, const void* from, size_t bytes) {
    return to_device_(reinterpret_cast<uint64_t>(to), from, bytes) == 0;
  }
  // Waits for what the default stream does.
  bool to_host(void* to, const void* from, size_t bytes) {
    return to_host_(to, reinterpret_cast<uint64_t>(from), bytes) == 0;
  }

 private:
  template <class F>
  bool load(const char* name, F*& function) {
    function = reinterpret_cast<F*>(dlsym(library_, name));
    return function != nullptr;
  }

  void* library_;
  bool usable_ = false;
  std::vector<uint64_t> blocks_;
  int (*init_)(unsigned) = nullptr;
  int (*get_device_)(int*, int) = nullptr;
  int (*retain_)(void**, int) = nullptr;
  int (*set_current_)(void*) = nullptr;
  int (*allocate_)(uint64_t*, size_t) = nullptr;
  int (*free_)(uint64_t) = nullptr;
  int (*to_device_)(uint64_t, const void*, size_t) = nullptr;
  int (*to_host_)(void*, uint64_t, size_t) = nullptr;
};
