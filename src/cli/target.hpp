// The target that a command's arguments name.
#pragma once

#include <optional>
#include <string>

#include "run/shared/target.hpp"

namespace attacca::cli {

// Of --device, --mode and, of commands that have it, --as. Errors: an unknown name, a GPU that is
// not there.
Result<run::Target> target_of(const std::string& device, const std::string& mode, bool fuse = true,
                              const std::optional<std::string>& as = {});

}  // namespace attacca::cli
