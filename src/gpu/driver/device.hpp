// Owners of the driver's objects: a device, memory, streams, events, modules, graphs. They can be
// moved but not copied, except Device, whose copies share one retained primary context. The others
// keep their device alive. Destructors ignore failures.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "gpu/devices.hpp"
#include "gpu/driver/driver.hpp"

namespace attacca::gpu {

class Device {
 public:
  static Result<int> count();
  static Result<Device> open(int ordinal = 0);
  // A device to compile for, which need not be present. info() is all that is known of it; calls
  // that need a device are errors.
  static Device described(DeviceInfo info);

  bool is_here() const { return context() != nullptr; }
  const Driver& driver() const { return *state_->driver; }
  const DeviceInfo& info() const { return state_->info; }
  ContextHandle context() const { return state_->context; }
  // Makes its context current for the calling thread, where it stays; for a process that is ours.
  // A library's calls leave the thread as it was (Current): PyTorch's device is the one whose
  // context is current.
  Status make_current() const;
  Status synchronize() const;

  // The call, with its context current.
  template <class... Parameters, class... Arguments>
  Status call(const DriverFunctionEntry<Parameters...>& entry, Arguments... arguments) const;

 private:
  struct State {
    const Driver* driver = nullptr;
    DeviceHandle handle = 0;
    ContextHandle context = nullptr;
    DeviceInfo info;
    State() = default;
    State(const State&) = delete;
    State& operator=(const State&) = delete;
    ~State();
  };
  explicit Device(std::shared_ptr<const State> state) : state_(std::move(state)) {}

  std::shared_ptr<const State> state_;
};

// While it lives, a device's context is current for the calling thread; then the one that was
// before. Where none was, that of device 0 stays: it is the one that the CUDA runtime would make
// current.
class [[nodiscard]] Current {
 public:
  explicit Current(const Device& device);  // which must outlive it
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;
  ~Current() {
    if (restores_) restore();
  }

  const Status& entered() const { return entered_; }

 private:
  void restore() const;

  const Device& device_;
  ContextHandle before_ = nullptr;
  bool restores_ = false;
  Status entered_;
};

// While it lives, the calling thread may allocate, free, load and unload although a stream is being
// captured into a CUDA graph. Elsewhere such a call is refused then, and breaks the capture: the
// caller's own, where Python's collector happens to destroy a plan of ours during it.
class [[nodiscard]] OutsideCapture {
 public:
  explicit OutsideCapture(const Device& device) : device_(device) { exchange(); }
  OutsideCapture(const OutsideCapture&) = delete;
  OutsideCapture& operator=(const OutsideCapture&) = delete;
  ~OutsideCapture() { exchange(); }

 private:
  void exchange();

  const Device& device_;
  int mode_ = 2;  // CU_STREAM_CAPTURE_MODE_RELAXED; then what was before
};

template <class... Parameters, class... Arguments>
Status Device::call(const DriverFunctionEntry<Parameters...>& entry, Arguments... arguments) const {
  const Current current(*this);
  ATTACCA_TRY_VOID(current.entered());
  return driver().call(entry, arguments...);
}

// A handle that is destroyed with its owner, by the driver's function `Destroy`.
template <class Handle, auto Destroy>
class Owned {
 public:
  Owned() = default;
  Owned(Device device, Handle handle)
      : device_(std::make_unique<Device>(std::move(device))), handle_(handle) {}
  Owned(Owned&& other) noexcept
      : device_(std::move(other.device_)), handle_(std::exchange(other.handle_, Handle{})) {}
  Owned& operator=(Owned&& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Owned() {
    if (handle_ == Handle{}) return;
    const Current current(*device_);  // even if that fails, the driver may know the handle
    const OutsideCapture outside(*device_);
    (void)device_->driver().call(device_->driver().*Destroy, handle_);
  }

  Handle get() const { return handle_; }
  const Device& device() const { return *device_; }

 private:
  std::unique_ptr<Device> device_;  // null with the handle
  Handle handle_{};
};

// ---- Memory

class DeviceMemory {
 public:
  DeviceMemory() = default;  // no bytes
  // 0 bytes: a null pointer.
  static Result<DeviceMemory> allocate(const Device& device, size_t bytes);

  DevicePointer address() const { return memory_.get(); }
  void* pointer() const { return reinterpret_cast<void*>(memory_.get()); }
  size_t size() const { return size_; }

  // On a stream, in its order; the host memory must stay until then (pageable memory: the driver
  // copies it first). REQUIRES: offset + bytes <= size().
  Status copy_from(const void* host, size_t bytes, StreamHandle stream = nullptr,
                   size_t offset = 0);
  Status copy_to(void* host, size_t bytes, StreamHandle stream = nullptr, size_t offset = 0) const;
  Status fill(uint8_t value, StreamHandle stream = nullptr);

 private:
  Owned<DevicePointer, &Driver::mem_free> memory_;
  size_t size_ = 0;
};

// Page-locked host memory.
class PinnedMemory {
 public:
  PinnedMemory() = default;
  static Result<PinnedMemory> allocate(const Device& device, size_t bytes);
  void* pointer() const { return memory_.get(); }
  size_t size() const { return size_; }

 private:
  Owned<void*, &Driver::mem_free_host> memory_;
  size_t size_ = 0;
};

// ---- Streams, events, graphs

class Event {
 public:
  static Result<Event> create(const Device& device);  // with timing
  EventHandle get() const { return event_.get(); }
  Status record(StreamHandle stream);
  Status synchronize() const;
  // Milliseconds from `start` to this. REQUIRES: both recorded and done.
  Result<float> since(const Event& start) const;

 private:
  Owned<EventHandle, &Driver::event_destroy> event_;
};

class Stream {
 public:
  static Result<Stream> create(const Device& device);  // non-blocking
  StreamHandle get() const { return stream_.get(); }
  Status synchronize() const;
  Status wait(const Event& event) const;

 private:
  Owned<StreamHandle, &Driver::stream_destroy> stream_;
};

// A recorded run of launches.
class GraphExec {
 public:
  // Records the work that `launches` puts on the stream. If it fails, ends the capture and returns
  // its error.
  static Result<GraphExec> capture(const Device& device, StreamHandle stream,
                                   const std::function<Status()>& launches);
  Status launch(StreamHandle stream) const;

 private:
  Owned<GraphExecHandle, &Driver::graph_exec_destroy> graph_;
};

// ---- Modules

struct Launch {
  std::array<uint32_t, 3> grid = {1, 1, 1};
  std::array<uint32_t, 3> block = {1, 1, 1};
  uint32_t shared_bytes = 0;  // dynamic
  // The kernel itself waits for the kernel before it in the stream (griddepcontrol.wait), so it may
  // start before that one has ended.
  bool dependent = false;
};

class Module;

// A kernel of a module, which must outlive it.
class Function {
 public:
  Function() = default;  // no function: its members must not be called
  // The kernel's registers, and bytes of local memory (spills and arrays), a thread.
  Result<int> registers() const;
  Result<int> local_bytes() const;
  // Must be called once before launches with so much dynamic shared memory; up to 48 KiB it does
  // nothing.
  Status allow_shared_bytes(uint32_t bytes) const;
  Result<int> max_blocks_per_sm(int threads, size_t shared_bytes) const;
  // Of a kernel whose clusters' size was compiled in: the most clusters that run on the device at
  // once. Not every multiprocessor finds as many others beside it as a cluster needs.
  Result<int> max_clusters(const Launch& launch) const;
  // `parameters`: a pointer to each of the kernel's parameters. The context of the module must be
  // current (Current).
  Status launch(const Launch& launch, StreamHandle stream, void** parameters) const {
    const auto& [grid, block, shared, dependent] = launch;
    if (dependent && driver_->version() >= kDependentLaunchDriver)
      return launch_dependent(launch, stream, parameters);
    return driver_->call(driver_->launch_kernel, function_, grid[0], grid[1], grid[2], block[0],
                         block[1], block[2], shared, stream, parameters, nullptr);
  }

 private:
  friend class Module;
  // The first driver version that captures such launches into CUDA graphs.
  static constexpr int kDependentLaunchDriver = 12030;

  Function(const Driver* driver, FunctionHandle function) : driver_(driver), function_(function) {}
  Status launch_dependent(const Launch& launch, StreamHandle stream, void** parameters) const;

  const Driver* driver_ = nullptr;
  FunctionHandle function_ = nullptr;
};

class Module {
 public:
  // A cubin, or PTX that the driver assembles: the error then has its log.
  static Result<Module> load(const Device& device, std::span<const char> image);
  Result<Function> function(const std::string& name) const;
  const Device& device() const { return module_.device(); }

 private:
  Owned<ModuleHandle, &Driver::module_unload> module_;
};

}  // namespace attacca::gpu
