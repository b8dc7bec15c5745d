#include "support/child_process.hpp"

#include <cerrno>
#include <csignal>
#include <cstring>
#include <sys/wait.h>
#include <thread>

namespace attacca {

Result<std::optional<int>> wait_for_child(pid_t child,
                                          std::optional<std::chrono::milliseconds> limit) {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + limit.value_or(std::chrono::milliseconds(0));
  bool killed = false;
  if (child <= 0) return fail("no child process");  // the system would take it for all of them
  for (int status = 0;;) {
    const pid_t ended = waitpid(child, &status, limit && !killed ? WNOHANG : 0);
    if (ended == child) return killed ? std::optional<int>() : status;
    if (ended < 0 && errno != EINTR) return fail(std::strerror(errno));
    if (ended < 0) continue;
    if (Clock::now() < end) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    } else {
      kill(child, SIGKILL);
      killed = true;
    }
  }
}

}  // namespace attacca
