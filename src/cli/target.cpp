#include "cli/target.hpp"

#include "fmt/format.h"

namespace attacca::cli {

Result<run::Target> target_of(const std::string& device, const std::string& mode, bool fuse,
                              const std::optional<std::string>& as) {
  ATTACCA_TRY(const run::DeviceId id, run::parse_device(device, "--device"));
  std::optional<gpu::DeviceInfo> described;
  if (as && !as->empty()) {
    ATTACCA_TRY(described, run::described_device(*as, "--as"));
  }
  if (described && !id.cuda)
    return fail("it describes a GPU, and the device is the CPU", "--as", "add --device cuda");
  auto target = run::Target::of(id, *ir::parse_mode(mode), fuse, described);
  if (target) return target;
  Error error = std::move(target).error();
  if (error.where.empty()) error.where = "--device " + to_string(id);
  if (as)
    error.fix += fmt::format("{}or describe a device: --as {}", error.fix.empty() ? "" : ", ",
                             gpu::known_device_names());
  return tl::make_unexpected(std::move(error));
}

}  // namespace attacca::cli
