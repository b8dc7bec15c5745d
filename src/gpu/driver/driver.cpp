#include "gpu/driver/driver.hpp"

#include "fmt/format.h"

namespace attacca::gpu {
namespace {

struct Fix {
  int code;
  const char* text;
};

constexpr Fix kFixes[] = {
    {2, "free device memory, or choose smaller sizes"},
    {100, "run on a machine with an NVIDIA GPU; check CUDA_VISIBLE_DEVICES"},
    {101, "choose a device that nvidia-smi lists; check CUDA_VISIBLE_DEVICES"},
    {209, "build the template for this device's compute capability"},
    {222,
     "update the NVIDIA driver, or install nvJitLink so that the driver need not assemble PTX"},
    {802, "wait for the fabric manager (systemctl status nvidia-fabricmanager)"},
    {803, "reboot, or reload the kernel module that matches the user-mode driver"},
};

const char* fix_of(int code) {
  for (const Fix& fix : kFixes)
    if (fix.code == code) return fix.text;
  return "";
}

template <class... Parameters>
Status resolve(const Library& library, DriverFunctionEntry<Parameters...>& entry) {
  auto address = library.symbol(entry.symbol);
  if (!address) {
    address.error().fix = "update the NVIDIA driver (CUDA 12.0 or newer)";
    return tl::make_unexpected(std::move(address).error());
  }
  entry.function = reinterpret_cast<int (*)(Parameters...)>(*address);
  return {};
}

}  // namespace

Error Driver::error(const char* symbol, int code) const {
  const char* name = nullptr;
  const char* text = nullptr;
  get_error_name.function(code, &name);
  get_error_string.function(code, &text);
  return {fmt::format("{}: {} ({}): {}", symbol, name ? name : "unknown error", code,
                      text ? text : "no description"),
          {},
          fix_of(code)};
}

Result<Driver> Driver::open() {
  ATTACCA_TRY(const Library library, Library::open(kDriverLibrary));
  Driver driver;
  driver.path_ = library.path();
#define FUNCTION(member, symbol, ...) ATTACCA_TRY_VOID(resolve(library, driver.member));
#include "gpu/driver/driver_functions.def"
#undef FUNCTION
  driver.encode_tiled_ = library.find_symbol("cuTensorMapEncodeTiled");
  ATTACCA_TRY_VOID(driver.call(driver.init, 0u));
  ATTACCA_TRY_VOID(driver.call(driver.driver_get_version, &driver.version_));
  return driver;
}

Result<const Driver*> Driver::get() {
  return open_once(&Driver::open);
}

}  // namespace attacca::gpu
