#include "gpu/driver/device.hpp"

#include <string>
#include <vector>

#include "fmt/format.h"

#include "support/check.hpp"

namespace attacca::gpu {
namespace {

// Numbers of CUdevice_attribute, CUfunction_attribute and flags, from the driver's documentation.
constexpr int kCapabilityMajor = 75, kCapabilityMinor = 76, kSmCount = 16, kL2Bytes = 38,
              kMaxSharedOptin = 97;
constexpr int kClockKilohertz = 13, kMemoryKilohertz = 36, kMemoryBits = 37;
constexpr int kLocalBytes = 3, kRegisters = 4, kMaxDynamicShared = 8;
constexpr unsigned kStreamNonBlocking = 1, kEventDefault = 0;
constexpr int kCaptureThreadLocal = 1;
constexpr int kJitErrorLog = 5, kJitErrorLogBytes = 6;

struct Attribute {
  int number;
  int DeviceInfo::*member;
};
constexpr Attribute kAttributes[] = {
    {kCapabilityMajor, &DeviceInfo::major},
    {kCapabilityMinor, &DeviceInfo::minor},
    {kSmCount, &DeviceInfo::sm_count},
    {kL2Bytes, &DeviceInfo::l2_bytes},
    {kMaxSharedOptin, &DeviceInfo::max_shared_bytes},
};

Result<DeviceRates> rates(const Driver& driver, DeviceHandle handle, const DeviceInfo& info) {
  int clock = 0, memory_clock = 0, bits = 0;
  for (const auto& [number, value] : {std::pair{kClockKilohertz, &clock},
                                      {kMemoryKilohertz, &memory_clock},
                                      {kMemoryBits, &bits}})
    ATTACCA_TRY_VOID(driver.call(driver.device_get_attribute, value, number, handle));
  // Two transfers a cycle.
  return rates_of(info, clock * 1e3, 2 * memory_clock * 1e3 * bits / 8);
}

Result<DeviceInfo> describe(const Driver& driver, DeviceHandle handle, int ordinal) {
  DeviceInfo info;
  info.ordinal = ordinal;
  char name[256] = {};
  ATTACCA_TRY_VOID(driver.call(driver.device_get_name, name, int{sizeof name} - 1, handle));
  info.name = name;
  ATTACCA_TRY_VOID(driver.call(driver.device_total_mem, &info.memory_bytes, handle));
  for (const auto& [number, member] : kAttributes)
    ATTACCA_TRY_VOID(driver.call(driver.device_get_attribute, &(info.*member), number, handle));
  ATTACCA_TRY(info.rates, rates(driver, handle, info));
  return info;
}

}  // namespace

// ---- Device

Device::State::~State() {
  if (context) driver->primary_context_release.function(handle);
}

Result<int> Device::count() {
  ATTACCA_TRY(const Driver* driver, Driver::get());
  int count = 0;
  ATTACCA_TRY_VOID(driver->call(driver->device_get_count, &count));
  return count;
}

Result<Device> Device::open(int ordinal) {
  ATTACCA_TRY(const Driver* driver, Driver::get());
  auto state = std::make_shared<State>();
  state->driver = driver;
  ATTACCA_TRY_VOID(driver->call(driver->device_get, &state->handle, ordinal));
  ATTACCA_TRY(state->info, describe(*driver, state->handle, ordinal));
  ATTACCA_TRY_VOID(driver->call(driver->primary_context_retain, &state->context, state->handle));
  return Device(std::move(state));
}

Device Device::described(DeviceInfo info) {
  static const Driver& none = *new Driver;
  auto state = std::make_shared<State>();
  state->driver = &none;
  state->info = std::move(info);
  return Device(std::move(state));
}

Status Device::make_current() const {
  if (!is_here())
    return fail(fmt::format("{} is described, not here", info().name), "device",
                "save the plan with its kernels, and load it where that device is");
  return driver().call(driver().context_set_current, context());
}

Current::Current(const Device& device) : device_(device) {
  if (device.is_here()) {
    const Driver& driver = device.driver();
    entered_ = driver.call(driver.context_get_current, &before_);
    if (!entered_ || before_ == device.context()) return;
  }
  entered_ = device.make_current();
  restores_ = entered_ && (before_ != nullptr || device.info().ordinal != 0);
}

void Current::restore() const {
  (void)device_.driver().call(device_.driver().context_set_current, before_);
}

// A failure shows in the call that follows.
void OutsideCapture::exchange() {
  const Driver& driver = device_.driver();
  if (device_.is_here()) (void)driver.call(driver.thread_exchange_capture_mode, &mode_);
}

Status Device::synchronize() const {
  return call(driver().context_synchronize);
}

// ---- Memory

Result<DeviceMemory> DeviceMemory::allocate(const Device& device, size_t bytes) {
  DeviceMemory memory;
  if (bytes == 0) return memory;
  DevicePointer pointer = 0;
  const OutsideCapture outside(device);
  if (auto status = device.call(device.driver().mem_alloc, &pointer, bytes); !status) {
    status.error().where =
        fmt::format("allocating {} bytes on device {}", bytes, device.info().ordinal);
    return tl::make_unexpected(std::move(status).error());
  }
  memory.memory_ = {device, pointer};
  memory.size_ = bytes;
  return memory;
}

Status DeviceMemory::copy_from(const void* host, size_t bytes, StreamHandle stream, size_t offset) {
  ATTACCA_CHECK(offset + bytes <= size_, "copy beyond the end of device memory");
  if (bytes == 0) return {};
  const Device& device = memory_.device();
  return device.call(device.driver().memcpy_to_device, address() + offset, host, bytes, stream);
}

Status DeviceMemory::copy_to(void* host, size_t bytes, StreamHandle stream, size_t offset) const {
  ATTACCA_CHECK(offset + bytes <= size_, "copy beyond the end of device memory");
  if (bytes == 0) return {};
  const Device& device = memory_.device();
  return device.call(device.driver().memcpy_to_host, host, address() + offset, bytes, stream);
}

Status DeviceMemory::fill(uint8_t value, StreamHandle stream) {
  if (size_ == 0) return {};
  const Device& device = memory_.device();
  return device.call(device.driver().memset_d8, address(), value, size_, stream);
}

Result<PinnedMemory> PinnedMemory::allocate(const Device& device, size_t bytes) {
  PinnedMemory memory;
  if (bytes == 0) return memory;
  void* pointer = nullptr;
  const OutsideCapture outside(device);
  ATTACCA_TRY_VOID(device.call(device.driver().mem_alloc_host, &pointer, bytes, 0u));
  memory.memory_ = {device, pointer};
  memory.size_ = bytes;
  return memory;
}

// ---- Streams, events, graphs

Result<Event> Event::create(const Device& device) {
  EventHandle handle = nullptr;
  ATTACCA_TRY_VOID(device.call(device.driver().event_create, &handle, kEventDefault));
  Event event;
  event.event_ = {device, handle};
  return event;
}

Status Event::record(StreamHandle stream) {
  const Device& device = event_.device();
  return device.call(device.driver().event_record, get(), stream);
}

Status Event::synchronize() const {
  const Device& device = event_.device();
  return device.call(device.driver().event_synchronize, get());
}

Result<float> Event::since(const Event& start) const {
  const Device& device = event_.device();
  float milliseconds = 0;
  ATTACCA_TRY_VOID(
      device.call(device.driver().event_elapsed_time, &milliseconds, start.get(), get()));
  return milliseconds;
}

Result<Stream> Stream::create(const Device& device) {
  StreamHandle handle = nullptr;
  ATTACCA_TRY_VOID(device.call(device.driver().stream_create, &handle, kStreamNonBlocking));
  Stream stream;
  stream.stream_ = {device, handle};
  return stream;
}

Status Stream::synchronize() const {
  const Device& device = stream_.device();
  return device.call(device.driver().stream_synchronize, get());
}

Status Stream::wait(const Event& event) const {
  const Device& device = stream_.device();
  return device.call(device.driver().stream_wait_event, get(), event.get(), 0u);
}

Result<GraphExec> GraphExec::capture(const Device& device, StreamHandle stream,
                                     const std::function<Status()>& launches) {
  const Driver& driver = device.driver();
  ATTACCA_TRY_VOID(device.call(driver.stream_begin_capture, stream, kCaptureThreadLocal));
  Status launched = launches();
  GraphHandle handle = nullptr;
  Status ended = device.call(driver.stream_end_capture, stream, &handle);
  Owned<GraphHandle, &Driver::graph_destroy> graph(device, handle);
  if (!launched) return tl::make_unexpected(std::move(launched).error());
  if (!ended) return tl::make_unexpected(std::move(ended).error());
  GraphExecHandle exec = nullptr;
  ATTACCA_TRY_VOID(device.call(driver.graph_instantiate, &exec, graph.get(), 0ull));
  GraphExec result;
  result.graph_ = {device, exec};
  return result;
}

Status GraphExec::launch(StreamHandle stream) const {
  const Device& device = graph_.device();
  return device.call(device.driver().graph_launch, graph_.get(), stream);
}

// ---- Modules

Result<int> Function::registers() const {
  int value = 0;
  ATTACCA_TRY_VOID(driver_->call(driver_->function_get_attribute, &value, kRegisters, function_));
  return value;
}

Result<int> Function::local_bytes() const {
  int value = 0;
  ATTACCA_TRY_VOID(driver_->call(driver_->function_get_attribute, &value, kLocalBytes, function_));
  return value;
}

Status Function::launch_dependent(const Launch& launch, StreamHandle stream,
                                  void** parameters) const {
  LaunchAttribute attribute;
  attribute.id = kProgrammaticStreamSerialization;
  attribute.value = 1;
  const auto& [x, y, z] = launch.grid;
  const auto& [block_x, block_y, block_z] = launch.block;
  const LaunchConfig config{
      {x, y, z}, {block_x, block_y, block_z}, launch.shared_bytes, stream, &attribute, 1};
  return driver_->call(driver_->launch_kernel_ex, &config, function_, parameters, nullptr);
}

Status Function::allow_shared_bytes(uint32_t bytes) const {
  constexpr uint32_t kWithoutAsking = 48 * 1024;
  if (bytes <= kWithoutAsking) return {};
  return driver_->call(driver_->function_set_attribute, function_, kMaxDynamicShared,
                       static_cast<int>(bytes));
}

Result<int> Function::max_blocks_per_sm(int threads, size_t shared_bytes) const {
  int blocks = 0;
  ATTACCA_TRY_VOID(
      driver_->call(driver_->occupancy_max_blocks, &blocks, function_, threads, shared_bytes));
  return blocks;
}

Result<int> Function::max_clusters(const Launch& launch) const {
  const auto& [x, y, z] = launch.grid;
  const auto& [block_x, block_y, block_z] = launch.block;
  const LaunchConfig config{
      {x, y, z}, {block_x, block_y, block_z}, launch.shared_bytes, nullptr, nullptr, 0};
  int clusters = 0;
  ATTACCA_TRY_VOID(driver_->call(driver_->occupancy_max_clusters, &clusters, function_, &config));
  return clusters;
}

Result<Module> Module::load(const Device& device, std::span<const char> image) {
  // PTX must end in a zero byte; a cubin may.
  std::vector<char> terminated(image.begin(), image.end());
  terminated.push_back('\0');
  std::string log(8192, '\0');
  int options[] = {kJitErrorLog, kJitErrorLogBytes};
  void* values[] = {log.data(), reinterpret_cast<void*>(log.size())};
  ModuleHandle handle = nullptr;
  const OutsideCapture outside(device);
  if (auto status = device.call(device.driver().module_load_data, &handle, terminated.data(), 2u,
                                options, values);
      !status) {
    status.error().where = log.c_str();
    return tl::make_unexpected(std::move(status).error());
  }
  Module module;
  module.module_ = {device, handle};
  return module;
}

Result<Function> Module::function(const std::string& name) const {
  const Driver& driver = device().driver();
  FunctionHandle handle = nullptr;
  if (auto status = device().call(driver.module_get_function, &handle, module_.get(), name.c_str());
      !status) {
    status.error().where = name;
    return tl::make_unexpected(std::move(status).error());
  }
  return Function(&driver, handle);
}

}  // namespace attacca::gpu
