// A GPU as ONNX Runtime sees it: its memory's descriptions, and what is made on it.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "ort/api.hpp"
#include "ort/cuda/pool.hpp"

namespace attacca::ort {

// The vendor of a GPU's memory. It is NVIDIA's own number, so that ONNX Runtime takes memory of its
// CUDA provider on the same device for the same.
inline constexpr uint32_t kNvidia = 0x10DE;

// The code of a run that fails on a GPU. ONNX Runtime's Python package meets ORT_EP_FAIL by another
// session, on the CPU alone, from then on.
inline constexpr OrtErrorCode kGpuFailed = ORT_FAIL;

// Where tensors lie, as ONNX Runtime's descriptions of devices say.
struct Place {
  bool host = true;  // pageable or page-locked
  uint32_t ordinal = 0;
};
// None: memory of another kind of device.
std::optional<Place> place_of(const OrtMemoryDevice* device);

// One for each device of the driver's, for all sessions. It is opened when something is made on it.
class Gpu {
 public:
  explicit Gpu(int ordinal);

  const std::string& device_name() const { return device_name_; }  // "cuda:0"
  const OrtMemoryInfo* memory_info() const { return memory_info_; }
  const OrtMemoryInfo* pinned_info() const { return pinned_info_; }

  // What the functions below need. Errors: the driver cannot open the device.
  Status open();

  // REQUIRES: open() has succeeded.
  const Device& device() const { return opened_->device; }
  Pool& memory() { return opened_->memory; }
  Pool& pinned() { return opened_->pinned; }

  // A stream for one run or one user at a time. destroy_stream waits for its work.
  Result<void*> create_stream();
  void destroy_stream(void* stream);
  // To be called before work is put on the stream.
  void busy(void* stream);
  Status synchronize(void* stream);

 private:
  struct Opened {
    explicit Opened(const Device& made)
        : device(made), memory(made, Memory::Device), pinned(made, Memory::PinnedHost) {}
    Device device;
    Pool memory, pinned;
  };

  const std::string device_name_;
  Ort::MemoryInfo memory_info_, pinned_info_;
  std::mutex mutex_;
  std::unique_ptr<Opened> opened_;
};

}  // namespace attacca::ort
