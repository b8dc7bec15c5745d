// How a child process ends.
#pragma once

#include <chrono>
#include <optional>
#include <sys/types.h>

#include "support/error.hpp"

namespace attacca {

// Waits for a child of this process: its status, as waitpid tells it. One that does not end within
// `limit` is killed, which gives none. An error: it is nobody's child.
Result<std::optional<int>> wait_for_child(
    pid_t child, std::optional<std::chrono::milliseconds> limit = std::nullopt);

}  // namespace attacca
