// The C interface: a GPU's memory, streams and events.
#include "gpu/driver/device.hpp"

#include "api/c/status.hpp"
#include "api/options.hpp"
#include "attacca/attacca.h"

namespace gpu = attacca::gpu;

struct attacca_device {
  gpu::Device device;
};

namespace {

using gpu::Driver;

// The device's call of an entry of the driver, given as Driver::..., with these arguments.
template <class Entry, class... Arguments>
attacca_status* call(const attacca_device* device, Entry entry, Arguments... arguments) {
  return guarded([&]() -> Status {
    ATTACCA_REQUIRE(device);
    return device->device.call(device->device.driver().*entry, arguments...);
  });
}

// The same with a place for what is made.
template <class Handle, class Entry, class... Arguments>
attacca_status* make(const attacca_device* device, Entry entry, void** into, const char* name,
                     Arguments... arguments) {
  return guarded([&]() -> Status {
    ATTACCA_REQUIRE(device);
    ATTACCA_TRY_VOID(required(name, {into}));
    Handle made{};
    ATTACCA_TRY_VOID(device->device.call(device->device.driver().*entry, &made, arguments...));
    *into = (void*)made;
    return {};
  });
}

gpu::DevicePointer pointer(const void* address) {
  return reinterpret_cast<gpu::DevicePointer>(address);
}
gpu::StreamHandle stream_of(void* stream) {
  return static_cast<gpu::StreamHandle>(stream);
}
gpu::EventHandle event_of(void* event) {
  return static_cast<gpu::EventHandle>(event);
}

attacca_status* nothing(void** memory) {
  *memory = nullptr;
  return nullptr;
}

// A copy by this entry; an address of the host or of the device may be NULL only with 0 bytes.
template <class Entry, class To, class From>
attacca_status* copy(const attacca_device* device, Entry entry, To to, From from, size_t bytes,
                     void* stream) {
  if (bytes == 0) return nullptr;
  return guarded([&]() -> Status {
    ATTACCA_TRY_VOID(required("device, to, from", {device, (const void*)to, (const void*)from}));
    return device->device.call(device->device.driver().*entry, to, from, bytes, stream_of(stream));
  });
}

constexpr unsigned kNonBlocking = 1;   // CU_STREAM_NON_BLOCKING
constexpr unsigned kIsEqual = 1;       // CU_STREAM_WAIT_VALUE_EQ
constexpr unsigned kWithoutTimes = 2;  // CU_EVENT_DISABLE_TIMING

}  // namespace

extern "C" {

attacca_status* attacca_device_count(int32_t* count) {
  return guarded([&]() -> Status {
    ATTACCA_REQUIRE(count);
    ATTACCA_TRY(*count, gpu::Device::count());
    return {};
  });
}

attacca_status* attacca_device_open(const char* device, attacca_device** opened) {
  return guarded([&]() -> Status {
    ATTACCA_REQUIRE(device, opened);
    ATTACCA_TRY(const attacca::run::DeviceId parsed, api::parse_device(device));
    if (!parsed.cuda) return fail("the device is no GPU", "device", "give cuda");
    ATTACCA_TRY(gpu::Device made, gpu::Device::open(parsed.ordinal));
    *opened = new attacca_device{std::move(made)};
    return {};
  });
}

void attacca_device_free(attacca_device* device) {
  delete device;
}

const char* attacca_device_name(const attacca_device* device) {
  return device == nullptr ? "" : device->device.info().name.c_str();
}

attacca_status* attacca_device_allocate(const attacca_device* device, size_t bytes, void** memory) {
  if (bytes == 0 && memory != nullptr) return nothing(memory);
  return make<gpu::DevicePointer>(device, &Driver::mem_alloc, memory, "memory", bytes);
}

attacca_status* attacca_device_release(const attacca_device* device, void* memory) {
  if (memory == nullptr) return nullptr;
  return call(device, &Driver::mem_free, pointer(memory));
}

attacca_status* attacca_device_allocate_host(const attacca_device* device, size_t bytes,
                                             void** memory) {
  if (bytes == 0 && memory != nullptr) return nothing(memory);
  return make<void*>(device, &Driver::mem_alloc_host, memory, "memory", bytes, 0u);
}

attacca_status* attacca_device_release_host(const attacca_device* device, void* memory) {
  if (memory == nullptr) return nullptr;
  return call(device, &Driver::mem_free_host, memory);
}

attacca_status* attacca_device_upload(const attacca_device* device, void* to, const void* from,
                                      size_t bytes, void* stream) {
  return copy(device, &Driver::memcpy_to_device, pointer(to), from, bytes, stream);
}

attacca_status* attacca_device_download(const attacca_device* device, void* to, const void* from,
                                        size_t bytes, void* stream) {
  return copy(device, &Driver::memcpy_to_host, to, pointer(from), bytes, stream);
}

attacca_status* attacca_device_copy(const attacca_device* device, void* to, const void* from,
                                    size_t bytes, void* stream) {
  return copy(device, &Driver::memcpy_on_device, pointer(to), pointer(from), bytes, stream);
}

attacca_status* attacca_device_synchronize(const attacca_device* device) {
  return call(device, &Driver::context_synchronize);
}

attacca_status* attacca_stream_create(const attacca_device* device, void** stream) {
  return make<gpu::StreamHandle>(device, &Driver::stream_create, stream, "stream", kNonBlocking);
}

attacca_status* attacca_stream_destroy(const attacca_device* device, void* stream) {
  return call(device, &Driver::stream_destroy, stream_of(stream));
}

attacca_status* attacca_stream_synchronize(const attacca_device* device, void* stream) {
  return call(device, &Driver::stream_synchronize, stream_of(stream));
}

attacca_status* attacca_stream_wait(const attacca_device* device, void* stream, void* event) {
  return call(device, &Driver::stream_wait_event, stream_of(stream), event_of(event), 0u);
}

attacca_status* attacca_stream_wait_value(const attacca_device* device, void* stream,
                                          const uint32_t* word, uint32_t value) {
  return call(device, &Driver::stream_wait_value, stream_of(stream), pointer(word), value,
              kIsEqual);
}

attacca_status* attacca_stream_write_value(const attacca_device* device, void* stream,
                                           uint32_t* word, uint32_t value) {
  return call(device, &Driver::stream_write_value, stream_of(stream), pointer(word), value, 0u);
}

attacca_status* attacca_event_create(const attacca_device* device, void** event) {
  return make<gpu::EventHandle>(device, &Driver::event_create, event, "event", kWithoutTimes);
}

attacca_status* attacca_event_destroy(const attacca_device* device, void* event) {
  return call(device, &Driver::event_destroy, event_of(event));
}

attacca_status* attacca_event_record(const attacca_device* device, void* event, void* stream) {
  return call(device, &Driver::event_record, event_of(event), stream_of(stream));
}

attacca_status* attacca_event_synchronize(const attacca_device* device, void* event) {
  return call(device, &Driver::event_synchronize, event_of(event));
}

}  // extern "C"
