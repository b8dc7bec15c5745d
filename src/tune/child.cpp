#include "tune/child.hpp"

#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

#include "fmt/format.h"

#include "support/child_process.hpp"

namespace attacca::tune {
namespace {

using std::chrono::milliseconds;

constexpr size_t kLongestLine = size_t{1} << 20;
constexpr timeval kSendLimit{10, 0};      // for a child that does not read
constexpr milliseconds kExitLimit{2000};  // from a child's last word to its end
constexpr int kNoProgram = 127;

std::string describe(int status) {
  if (WIFSIGNALED(status))
    return fmt::format("was killed by signal {} ({})", WTERMSIG(status),
                       strsignal(WTERMSIG(status)));
  if (WEXITSTATUS(status) == kNoProgram) return "could not be run";
  return fmt::format("exited with {}", WEXITSTATUS(status));
}

}  // namespace

struct Child::Impl {
  pid_t pid = -1;
  int socket = -1;
  std::string unread;

  ~Impl() {
    if (socket >= 0) close(socket);
    if (pid > 0) finish();
  }

  // SIGKILL, also to the programs that the child has started.
  void finish() {
    if (pid > 0) kill(-pid, SIGKILL);
    reap(milliseconds(0));
  }

  // How the child ended. It has closed its end of the connection, but may still run for a while, or
  // for ever.
  std::string reap(milliseconds limit = kExitLimit) {
    const auto ended = wait_for_child(std::exchange(pid, -1), limit);
    return ended && *ended ? describe(**ended) : "closed its output and did not end";
  }
};

Child::Child(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Child::Child(Child&&) noexcept = default;
Child& Child::operator=(Child&&) noexcept = default;
Child::~Child() = default;

Result<Child> Child::start(const std::vector<std::string>& command) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    return fail(fmt::format("no socket for a child process: {}", std::strerror(errno)));
  std::vector<char*> arguments;
  for (const std::string& each : command) arguments.push_back(const_cast<char*>(each.c_str()));
  arguments.push_back(nullptr);
  auto impl = std::make_unique<Impl>();
  impl->pid = fork();
  if (impl->pid == 0) {
    // Only calls that are safe after a fork in a threaded program.
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setpgid(0, 0);
    // Where this process's own are closed, the socket may be one of them, and close on exec.
    const int end = fcntl(ends[1], F_DUPFD, STDERR_FILENO + 1);
    dup2(end, STDIN_FILENO);
    dup2(end, STDOUT_FILENO);
    close(end);
    execv(arguments[0], arguments.data());
    _exit(kNoProgram);
  }
  // Here, too: finish() may come before the child's own call.
  if (impl->pid > 0) setpgid(impl->pid, impl->pid);
  close(ends[1]);
  impl->socket = ends[0];
  setsockopt(ends[0], SOL_SOCKET, SO_SNDTIMEO, &kSendLimit, sizeof kSendLimit);
  if (impl->pid < 0)
    return fail(fmt::format("no child process: {}", std::strerror(errno)), command[0]);
  return Child(std::move(impl));
}

Status Child::send(const std::string& line) {
  const std::string text = line + "\n";
  for (size_t sent = 0; sent < text.size();) {
    const ssize_t count =
        ::send(impl_->socket, text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return fail("the child process is gone or does not listen");
    sent += static_cast<size_t>(count);
  }
  return {};
}

std::variant<std::string, Ended, TimedOut> Child::receive(std::chrono::milliseconds limit) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  for (;;) {
    if (const size_t newline = impl_->unread.find('\n'); newline != std::string::npos) {
      std::string line = impl_->unread.substr(0, newline);
      impl_->unread.erase(0, newline + 1);
      return line;
    }
    if (impl_->unread.size() > kLongestLine) {
      impl_->finish();
      return Ended{"wrote a line without an end"};
    }
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        deadline - std::chrono::steady_clock::now());
    if (left.count() <= 0) return TimedOut{};
    pollfd waiting{impl_->socket, POLLIN, 0};
    if (poll(&waiting, 1, static_cast<int>(left.count())) <= 0) continue;
    char buffer[4096];
    const ssize_t count = read(impl_->socket, buffer, sizeof buffer);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return Ended{impl_->reap()};
    impl_->unread.append(buffer, static_cast<size_t>(count));
  }
}

}  // namespace attacca::tune
