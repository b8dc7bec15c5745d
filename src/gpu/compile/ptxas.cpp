#include "gpu/compile/ptxas.hpp"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <optional>
#include <spawn.h>
#include <string_view>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

#include "fmt/format.h"

#include "gpu/compile/tool_version.hpp"
#include "gpu/driver/library.hpp"
#include "support/child_process.hpp"
#include "support/environment.hpp"
#include "support/files/draft_file.hpp"
#include "support/files/file.hpp"

extern char** environ;

namespace attacca::gpu {
namespace {

// A file in memory: nothing is left behind on a disk when this process is killed. ptxas finds it by
// the number of a descriptor that it inherits.
class MemoryFile {
 public:
  static Result<MemoryFile> create(const char* name) {
    const int file = memfd_create(name, MFD_CLOEXEC);
    if (file < 0) return failed();
    // Above the numbers that it gets in ptxas, so that giving them closes none of these files.
    const int moved = fcntl(file, F_DUPFD_CLOEXEC, kFirstNumber);
    const int error = errno;
    close(file);
    errno = error;
    if (moved < 0) return failed();
    return MemoryFile(moved);
  }
  MemoryFile(MemoryFile&& other) noexcept : file_(std::exchange(other.file_, -1)) {}
  MemoryFile& operator=(MemoryFile&&) = delete;
  ~MemoryFile() {
    if (file_ >= 0) close(file_);
  }

  int descriptor() const { return file_; }

  Status write(std::string_view bytes) const { return write_file(path(), bytes); }
  Result<std::string> read() const { return read_file(path()); }

 private:
  static constexpr int kFirstNumber = 16;

  explicit MemoryFile(int file) : file_(file) {}
  std::string path() const { return fmt::format("/proc/self/fd/{}", file_); }
  static tl::unexpected<Error> failed() {
    return fail(fmt::format("no file in memory for ptxas: {}", std::strerror(errno)), {},
                "free memory or file descriptors");
  }

  int file_;
};

// What ptxas calls its files.
constexpr int kInput = 3, kOutput = 4;
constexpr const char *kInputPath = "/proc/self/fd/3", *kOutputPath = "/proc/self/fd/4";

using Limit = std::optional<std::chrono::milliseconds>;

// The status of a child that the host program waited for, or the system (SIGCHLD is ignored). It
// has ended.
constexpr int kUnknown = -2;

// In a child: the number that a file gets there.
using Given = std::vector<std::pair<const MemoryFile*, int>>;

// Runs the program with these files; its exit status, -1 for a signal.
Result<int> run(const std::vector<std::string>& command, const Given& files,
                Limit limit = std::nullopt) {
  std::vector<char*> arguments;
  for (const std::string& argument : command)
    arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  for (const auto& [file, number] : files)
    posix_spawn_file_actions_adddup2(&actions, file->descriptor(), number);
  pid_t child = 0;
  const int error = posix_spawn(&child, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0)
    return fail(fmt::format("cannot start ptxas: {}", std::strerror(error)), command[0]);
  const auto ended = wait_for_child(child, limit);
  if (!ended) return kUnknown;
  if (!*ended)
    return fail(fmt::format("ptxas did not end within {} ms", limit->count()), command[0],
                "run it yourself; ATTACCA_PTXAS names another one");
  return WIFEXITED(**ended) ? WEXITSTATUS(**ended) : -1;
}

Result<std::string> ask_version(const std::string& program, Limit limit) {
  ATTACCA_TRY(const MemoryFile log, MemoryFile::create("log"));
  ATTACCA_TRY(const int code,
              run({program, "--version"}, {{&log, STDOUT_FILENO}, {&log, STDERR_FILENO}}, limit));
  ATTACCA_TRY(const std::string text, log.read());
  const size_t begin = text.rfind(", V");  // "Cuda compilation tools, release 13.0, V13.0.88"
  if ((code != 0 && code != kUnknown) || begin == std::string::npos)
    return fail("ptxas does not tell its version", program, "install ptxas of CUDA 12 or newer");
  return text.substr(begin + 3, text.find_first_of("\n ", begin + 3) - begin - 3);
}

}  // namespace

Result<std::string> ptxas_version(const std::string& program, Cache& cache,
                                  std::chrono::milliseconds limit) {
  return file_version(program, cache, [&] { return ask_version(program, limit); });
}

Result<ToolDescription> describe_ptxas() {
  const std::string program = find_program("ATTACCA_PTXAS", "ptxas");
  const std::string own = environment("ATTACCA_PTXAS");
  if (program.empty() && !own.empty())
    return fail(fmt::format("no program {}", own), "ATTACCA_PTXAS",
                "correct or unset ATTACCA_PTXAS");
  if (program.empty())
    return fail("no ptxas", {},
                "install nvidia-cuda-nvcc from PyPI, or cuda-nvcc-13-0 of "
                "NVIDIA's Debian repository, or set ATTACCA_PTXAS to its path");
  ATTACCA_TRY(const std::string version, ptxas_version(program, tool_versions()));
  return ToolDescription{"ptxas " + version, program};
}

Result<std::vector<char>> assemble_with_ptxas(const std::string& ptx, const std::string& arch,
                                              const std::string& program) {
  ATTACCA_TRY(const MemoryFile input, MemoryFile::create("spliced.ptx"));
  ATTACCA_TRY(const MemoryFile output, MemoryFile::create("spliced.cubin"));
  ATTACCA_TRY(const MemoryFile log, MemoryFile::create("log"));
  ATTACCA_TRY_VOID(input.write(ptx));
  ATTACCA_TRY(
      const int code,
      run({program, "-arch=" + arch, "-O3", kInputPath, "-o", kOutputPath},
          {{&input, kInput}, {&output, kOutput}, {&log, STDOUT_FILENO}, {&log, STDERR_FILENO}}));
  if (code != 0 && code != kUnknown) {
    ATTACCA_TRY(std::string said, log.read());
    return fail(fmt::format("ptxas cannot assemble the PTX (code {})", code), std::move(said));
  }
  ATTACCA_TRY(const std::string cubin, output.read());
  constexpr std::string_view kElf =
      "\x7f"
      "ELF";
  const bool whole = code == 0 || cubin.starts_with(kElf);
  if (cubin.empty() || !whole) return fail("ptxas wrote no cubin", program);
  return std::vector<char>(cubin.begin(), cubin.end());
}

}  // namespace attacca::gpu
