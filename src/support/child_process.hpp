// Waiting for a child process.
#pragma once

#include <chrono>
#include <optional>
#include <sys/types.h>

#include "support/error.hpp"

namespace attacca {

// Waits for a child of this process and returns its status, as waitpid gives it. A child that does
// not end within `limit` is killed, which gives nullopt. An error if this process has no such
// child.
Result<std::optional<int>> wait_for_child(
    pid_t child, std::optional<std::chrono::milliseconds> limit = std::nullopt);

}  // namespace attacca
