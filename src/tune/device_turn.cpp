#include "tune/device_turn.hpp"

#include <cerrno>
#include <chrono>
#include <fcntl.h>
#include <sys/file.h>
#include <thread>
#include <unistd.h>

#include "fmt/format.h"

#include "support/files/paths.hpp"
#include "support/files/private_folder.hpp"

namespace attacca::tune {
namespace {

using Clock = std::chrono::steady_clock;

// CUdevice_attribute's PCI_BUS_ID, PCI_DEVICE_ID and PCI_DOMAIN_ID: ordinals differ between
// processes that see different devices.
constexpr int kPlace[] = {33, 34, 50};

std::string lock_name(const gpu::Device& device) {
  std::string name = "timing";
  gpu::DeviceHandle handle{};
  const gpu::Driver& driver = device.driver();
  (void)driver.call(driver.device_get, &handle, device.info().ordinal);
  for (const int attribute : kPlace) {
    int value = 0;
    (void)driver.call(driver.device_get_attribute, &value, attribute, handle);
    name += fmt::format("-{:x}", value);
  }
  return name + ".lock";
}

}  // namespace

DeviceTurn::DeviceTurn(const gpu::Device& device, const std::function<void()>& waiting) {
  const std::string path = cache_directory();
  PrivateFolder folder;
  if (make_private_folders(path) != 0 || folder.open(path) != 0) return;
  file_ = openat(folder.descriptor(), lock_name(device).c_str(),
                 O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (file_ < 0) return;
  for (auto told = Clock::now(); flock(file_, LOCK_EX | LOCK_NB) != 0;) {
    if (errno != EWOULDBLOCK && errno != EINTR) return;  // a file system without locks
    if (Clock::now() - told >= std::chrono::seconds(1)) {
      waiting();
      told = Clock::now();
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

DeviceTurn::~DeviceTurn() {
  if (file_ >= 0) close(file_);
}

}  // namespace attacca::tune
