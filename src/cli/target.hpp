// The target that a command's arguments name.
#pragma once

#include <optional>
#include <string>

#include "run/shared/target.hpp"

namespace attacca::cli {

// The target of --device, --mode and --as. `as` nullopt: the command has no --as, and errors do not
// propose it. Errors: an unknown name, a GPU that is not there.
Result<run::Target> target_of(const std::string& device, const std::string& mode, bool fuse = true,
                              const std::optional<std::string>& as = {});

}  // namespace attacca::cli
