#include "ort/cuda/stream.hpp"

#include "ort/status.hpp"

namespace attacca::ort {
namespace {

class Notification : public OrtSyncNotificationImpl {
 public:
  static Result<std::unique_ptr<Notification>> create(std::shared_ptr<Gpu> gpu, void* stream) {
    const auto event = gpu->device().create_event();
    if (!event) return event.status();
    return std::unique_ptr<Notification>(new Notification(std::move(gpu), stream, *event));
  }
  ~Notification() { (void)gpu_->device().destroy_event(event_); }

 private:
  Notification(std::shared_ptr<Gpu> gpu, void* stream, void* event)
      : OrtSyncNotificationImpl{}, gpu_(std::move(gpu)), stream_(stream), event_(event) {
    ort_version_supported = ORT_API_VERSION;
    Release = [](OrtSyncNotificationImpl* self) noexcept {
      delete static_cast<Notification*>(self);
    };
    Activate = [](OrtSyncNotificationImpl* self) noexcept -> OrtStatus* {
      const auto& [gpu, stream, event] = parts(self);
      return to_ort(gpu->device().record(event, stream), kGpuFailed);
    };
    WaitOnDevice = [](OrtSyncNotificationImpl* self,
                      OrtSyncStream* consumer) noexcept -> OrtStatus* {
      const auto& [gpu, stream, event] = parts(self);
      void* const waiting =
          consumer == nullptr ? nullptr : Ort::GetApi().SyncStream_GetHandle(consumer);
      // The CPU's: ONNX Runtime's copies to the host between nodes run there.
      if (waiting == nullptr) return to_ort(gpu->device().synchronize_event(event), kGpuFailed);
      gpu->busy(waiting);
      return to_ort(gpu->device().wait(waiting, event), kGpuFailed);
    };
    WaitOnHost = [](OrtSyncNotificationImpl* self) noexcept -> OrtStatus* {
      const auto& [gpu, stream, event] = parts(self);
      return to_ort(gpu->device().synchronize_event(event), kGpuFailed);
    };
  }

  struct Parts {
    Gpu* gpu;
    void *stream, *event;
  };
  static Parts parts(OrtSyncNotificationImpl* self) {
    const auto* const it = static_cast<Notification*>(self);
    return {it->gpu_.get(), it->stream_, it->event_};
  }

  std::shared_ptr<Gpu> gpu_;
  void *stream_, *event_;
};

}  // namespace

Stream::Stream(std::shared_ptr<Gpu> gpu, void* handle)
    : OrtSyncStreamImpl{}, gpu_(std::move(gpu)), handle_(handle) {
  ort_version_supported = ORT_API_VERSION;
  Release = [](OrtSyncStreamImpl* self) noexcept { delete static_cast<Stream*>(self); };
  GetHandle = [](OrtSyncStreamImpl* self) noexcept { return static_cast<Stream*>(self)->handle_; };
  CreateNotification = [](OrtSyncStreamImpl* self,
                          OrtSyncNotificationImpl** made) noexcept -> OrtStatus* {
    return guarded([&] {
      const auto* const stream = static_cast<Stream*>(self);
      auto notification = Notification::create(stream->gpu_, stream->handle_);
      if (notification) *made = (*std::move(notification)).release();
      return to_ort(notification.status(), kGpuFailed);
    });
  };
  Flush = [](OrtSyncStreamImpl* self) noexcept -> OrtStatus* {
    return guarded([&] {
      const auto* const stream = static_cast<Stream*>(self);
      return to_ort(stream->gpu_->synchronize(stream->handle_), kGpuFailed);
    });
  };
  OnSessionRunEnd = [](OrtSyncStreamImpl*) noexcept -> OrtStatus* { return nullptr; };
}

Result<std::unique_ptr<Stream>> Stream::create(std::shared_ptr<Gpu> gpu) {
  const auto handle = gpu->create_stream();
  if (!handle) return handle.status();
  return std::unique_ptr<Stream>(new Stream(std::move(gpu), *handle));
}

}  // namespace attacca::ort
