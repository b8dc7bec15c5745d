#include "gpu/compile/ptxas.hpp"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <spawn.h>
#include <sys/wait.h>

#include "fmt/format.h"

#include "gpu/compile/tool_version.hpp"
#include "gpu/driver/library.hpp"
#include "support/child_process.hpp"
#include "support/environment.hpp"

extern char** environ;

namespace attacca::gpu {
namespace {

namespace fs = std::filesystem;

struct TemporaryFolder {
  static Result<TemporaryFolder> create() {
    std::error_code error;
    std::string path = (fs::temp_directory_path(error) / "attacca-XXXXXX").string();
    if (!mkdtemp(path.data()))
      return fail(fmt::format("cannot make a temporary folder: {}", std::strerror(errno)), path,
                  "set TMPDIR to a folder that can be written");
    return TemporaryFolder(path);
  }
  explicit TemporaryFolder(fs::path folder) : path(std::move(folder)) {}
  TemporaryFolder(TemporaryFolder&& other) noexcept : path(std::exchange(other.path, {})) {}
  TemporaryFolder& operator=(TemporaryFolder&&) = delete;
  ~TemporaryFolder() {
    std::error_code error;
    if (!path.empty()) fs::remove_all(path, error);
  }
  fs::path path;
};

std::vector<char> read_all(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

using Limit = std::optional<std::chrono::milliseconds>;

// The status of a child that the host program waited for, or the system (SIGCHLD is ignored). It
// has ended.
constexpr int kUnknown = -2;

// Runs the program with standard output and error in a file; its exit status, -1 for a signal.
Result<int> run(const std::vector<std::string>& command, const fs::path& output,
                Limit limit = std::nullopt) {
  std::vector<char*> arguments;
  for (const std::string& argument : command)
    arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 1, output.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_adddup2(&actions, 1, 2);
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
  ATTACCA_TRY(const TemporaryFolder folder, TemporaryFolder::create());
  ATTACCA_TRY(const int code, run({program, "--version"}, folder.path / "log", limit));
  const std::vector<char> bytes = read_all(folder.path / "log");
  const std::string text(bytes.begin(), bytes.end());
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
  ATTACCA_TRY(const TemporaryFolder folder, TemporaryFolder::create());
  const fs::path input = folder.path / "spliced.ptx", output = folder.path / "spliced.cubin";
  std::ofstream file(input, std::ios::binary);
  file << ptx;
  file.close();
  if (!file) return fail("cannot write a temporary file", input, "make room on that disk");
  ATTACCA_TRY(const int code,
              run({program, "-arch=" + arch, "-O3", input, "-o", output}, folder.path / "log"));
  const std::vector<char> log = read_all(folder.path / "log");
  if (code != 0 && code != kUnknown)
    return fail(fmt::format("ptxas cannot assemble the PTX (code {})", code),
                std::string(log.begin(), log.end()));
  std::vector<char> cubin = read_all(output);
  constexpr std::string_view kElf =
      "\x7f"
      "ELF";
  const bool whole = code == 0 || std::string_view(cubin.data(), cubin.size()).starts_with(kElf);
  if (cubin.empty() || !whole) return fail("ptxas wrote no cubin", program);
  return cubin;
}

}  // namespace attacca::gpu
